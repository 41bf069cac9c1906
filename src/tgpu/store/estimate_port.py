"""What a store keeps for estimates of starts: the first estimate of each job, and recent run times."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tgpu.domain.lifecycle import Cause
from tgpu.domain.start_estimate import StartEstimate

MOST_TASKS_OF_A_JOB = 32
"""Run times of one job that `recent_runs` reads: an array has very many that are alike."""


class PastRun(NamedTuple):
    """An attempt that is over."""

    user: str
    name: str
    command: str
    """The signature of its job's command."""
    gpu_milli: int
    limit_s: int | None
    run_ms: int
    cause: Cause | None


@dataclass(frozen=True, slots=True)
class EstimateChanges:
    """What has become of estimates since the last write."""

    made: Sequence[StartEstimate] = ()
    """First estimates; one that there is already stays as it is."""
    started: Sequence[tuple[int, int]] = ()
    """Jobs that have started, and when."""
    dropped: Sequence[int] = field(default=())
    """Jobs that will not start any more."""

    def __bool__(self) -> bool:
        return bool(self.made or self.started or self.dropped)


class EstimateStore(Protocol):
    async def note_start_estimates(self, epoch: int, changes: EstimateChanges) -> None:
        """Keeps the latest `SCORED_KEPT` of those that have started. Raises DeposedError."""
        ...

    async def start_estimates(self) -> list[StartEstimate]:
        """All that there are, of jobs that have not started and of those that started last; by job."""
        ...

    async def scored_start_estimates(self) -> list[StartEstimate]:
        """Of jobs that have started; by job."""
        ...

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Of the jobs that ended last, the oldest end first."""
        ...
