"""Attempts that are lost, by node: closed once their node is back without them, or is removed."""

from collections.abc import Collection, Iterable

from tgpu.domain.ids import AttemptId


class LostBook:
    def __init__(self, lost: Iterable[tuple[AttemptId, str]] = ()) -> None:
        """`lost`: each attempt with its node."""
        self._on: dict[str, dict[AttemptId, None]] = {}
        for attempt_id, node_id in lost:
            self.add(attempt_id, node_id)

    def add(self, attempt_id: AttemptId, node_id: str) -> None:
        self._on.setdefault(node_id, {})[attempt_id] = None

    def missing(self, node_id: str, said: Collection[str] = ()) -> list[AttemptId]:
        """The node has said all that it has: those of its lost attempts that are not among them. After that
        none of them is lost any more."""
        return [name for name in self._on.pop(node_id, {}) if str(name) not in said]
