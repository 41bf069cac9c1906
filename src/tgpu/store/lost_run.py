"""What was counted of an attempt that is lost: it is taken off again when that returns, or ends its task."""

from typing import NamedTuple

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, Request
from tgpu.domain.lifecycle import AttemptState
from tgpu.store.demand import Run


class LostRun(NamedTuple):
    """Of a task that is not over: else nothing can be taken off any more."""

    task_id: TaskId
    tenant_id: str
    request: Request
    run: Run

    def gpu_ms(self, since_ms: int) -> int:
        """Of a period that began then."""
        return self.run.gpu_ms(self.request, since_ms)


def counted(attempt: Attempt) -> Run | None:
    """What was counted of its run, if it is lost."""
    if attempt.state is not AttemptState.LOST or attempt.exit is None:
        return None
    return Run(attempt.started_ms, attempt.exit.ended_ms)
