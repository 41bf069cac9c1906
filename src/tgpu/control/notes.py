"""How far attempts are that take long to start, as their nodes said last: kept in memory alone."""

from collections.abc import Iterable

from tgpu.protocol.messages import AttemptReport, Phase


class Notes:
    def __init__(self) -> None:
        self._of: dict[str, str] = {}

    def heard(self, reports: Iterable[AttemptReport]) -> None:
        for report in reports:
            if report.phase is Phase.STARTING and report.note:
                self._of[report.attempt] = report.note
            elif self._of:
                self._of.pop(report.attempt, None)

    def withheld(self, attempt: str, why: str) -> None:
        """Its launch was not sent to its node."""
        self._of[attempt] = why

    def of_job(self, job_id: int) -> str:
        """Of the first of its tasks that has one; empty if none has."""
        return next((note for attempt, note in self._of.items() if attempt.startswith(f"{job_id}.")), "")
