"""Tasks of a series as people name them: by index, where the server counts positions."""

from __future__ import annotations

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from typing import Any

    from tgpu.domain.index_set import IndexSet

_MOST_WRITTEN = 10_000


class Indices:
    """Of one job, as it is shown."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._known = {
            task["task_index"]: task["array_index"]
            for task in job.get("task_list") or ()
            if task.get("array_index") is not None
        }
        self._array: IndexSet | None = None
        if job.get("array"):
            from tgpu.domain.index_set import parse_indices  # noqa: PLC0415  only of arrays

            self._array = parse_indices("array", job["array"])

    def at(self, position: int) -> int:
        if self._array is not None:
            return self._array.at(position)
        return int(self._known.get(position, position))

    def in_words(self, data: object) -> object:
        """What an event tells of some tasks."""
        if not isinstance(data, dict) or "positions" not in data:
            return data
        from tgpu.domain.index_set import IndexSet, parse_indices  # noqa: PLC0415  only of arrays

        positions = parse_indices("positions", data["positions"])
        some = positions.count <= _MOST_WRITTEN
        named = IndexSet.of(map(self.at, positions)).text if some else f"{positions.count} of them"
        return {"indices" if name == "positions" else name: value for name, value in data.items()} | {
            "indices": named
        }
