"""How and where a job ran: by this jobs that have ended are found again."""

from dataclasses import dataclass

from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Cause


@dataclass(frozen=True, slots=True)
class Ran:
    """An empty field does not filter. Times are of a job's last attempt; one that runs has run until now."""

    causes: frozenset[Cause] = frozenset()
    node_ids: frozenset[str] = frozenset()
    exit_code: int | None = None
    started_from_ms: int | None = None
    started_until_ms: int | None = None
    ended_from_ms: int | None = None
    ended_until_ms: int | None = None
    """It has ended by then; what has not ended did not."""
    least_run_ms: int | None = None
    now_ms: int = 0

    def has(self, job: Job) -> bool:
        run_ms = None if job.started_ms is None else (job.ended_ms or self.now_ms) - job.started_ms
        return (
            (not self.causes or job.cause in self.causes)
            and (not self.node_ids or job.node_id in self.node_ids)
            and self.exit_code in (None, job.exit_code)
            and _is_between(job.started_ms, self.started_from_ms, self.started_until_ms)
            and _is_between(job.ended_ms, self.ended_from_ms, self.ended_until_ms)
            and (self.least_run_ms is None or (run_ms is not None and run_ms >= self.least_run_ms))
        )


def _is_between(moment_ms: int | None, from_ms: int | None, until_ms: int | None) -> bool:
    if from_ms is None and until_ms is None:
        return True
    if moment_ms is None:
        return False
    return (from_ms is None or moment_ms >= from_ms) and (until_ms is None or moment_ms <= until_ms)
