"""Progress of attempts that take long to start, as their nodes reported it last: kept in memory only."""

from collections.abc import Iterable, Iterator

from tgpu.domain.ids import AttemptId
from tgpu.protocol.messages import AttemptReport, Phase

MOST_OF_NODE = 1000


class Notes:
    def __init__(self) -> None:
        self._of: dict[str, dict[AttemptId, str]] = {}
        """By node: which of them an attempt is on, only the picture knows."""

    def heard(self, node_id: str, reports: Iterable[AttemptReport]) -> None:
        notes = self._of.setdefault(node_id, {})
        for report in reports:
            if report.phase is Phase.STARTING and report.note and len(notes) < MOST_OF_NODE:
                notes[AttemptId.parse(report.attempt)] = report.note
            elif notes:
                notes.pop(AttemptId.parse(report.attempt), None)
        if not notes:
            del self._of[node_id]

    def withheld(self, node_id: str, attempt: str, why: str) -> None:
        """Its launch was not sent to its node."""
        notes = self._of.setdefault(node_id, {})
        if len(notes) < MOST_OF_NODE:
            notes[AttemptId.parse(attempt)] = why

    def left(self, node_id: str) -> None:
        """What it says next, it says again."""
        self._of.pop(node_id, None)

    def of_job(self, job_id: int) -> Iterator[tuple[str, AttemptId, str]]:
        """(node, attempt, note) of its tasks."""
        for node_id, notes in self._of.items():
            for attempt_id, note in notes.items():
                if attempt_id.job_id == job_id:
                    yield node_id, attempt_id, note
