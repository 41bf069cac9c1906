"""Which tasks of which gangs wait and which run."""

from dataclasses import dataclass, field, replace

from tgpu.core.columns.own_copy import own_copy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request, TaskBrief


@dataclass(slots=True)
class GangState:
    job_id: int
    gang: Gang
    waiting: dict[TaskId, Request] = field(default_factory=dict)
    running: dict[TaskId, Request] = field(default_factory=dict)
    over: int = 0
    stands: TaskId | None = None
    """Who stands for it in a queue, if one does."""

    @property
    def known(self) -> int:
        return len(self.waiting) + len(self.running) + self.over

    @property
    def complete(self) -> bool:
        """All its tasks are known, so that it can be started, or repaired, whole. One that is not repaired
        starts anew once none of its tasks has a node any more, and never without one that is over."""
        return self.known == self.gang.size and (self.gang.repairs or not (self.running or self.over))

    @property
    def damaged(self) -> bool:
        return bool(self.waiting) and bool(self.running)


class GangBook:
    def __init__(self) -> None:
        self._gangs: dict[int, GangState] = {}

    def __len__(self) -> int:
        return len(self._gangs)

    def trial_copy(self) -> "GangBook":
        gangs = {
            job_id: replace(gang, waiting=dict(gang.waiting), running=dict(gang.running))
            for job_id, gang in self._gangs.items()
        }
        return own_copy(self, _gangs=gangs)

    def of(self, job_id: int) -> GangState:
        return self._gangs[job_id]

    def waits(self, task: TaskBrief) -> None:
        self._of(task).waiting[task.task_id] = task.request

    def runs(self, task: TaskBrief) -> None:
        self._of(task).running[task.task_id] = task.request

    def left(self, task: TaskBrief) -> None:
        """The task waits no more, or runs no more."""
        state = self._gangs[task.task_id.job_id]
        state.waiting.pop(task.task_id, None)
        state.running.pop(task.task_id, None)
        if not (state.waiting or state.running or state.over):
            del self._gangs[state.job_id]

    def ended(self, job_id: int) -> GangState | None:
        """One of its tasks is over, and stands in this book no more; None if that was the last."""
        state = self._gangs.get(job_id)
        if state is None:
            return None
        state.over += 1
        if state.waiting or state.running:
            return state
        del self._gangs[job_id]
        return None

    def get(self, job_id: int) -> GangState | None:
        return self._gangs.get(job_id)

    def damaged(self) -> list[GangState]:
        """Those that lost a task, oldest first."""
        if not self._gangs:
            return []
        return [state for _, state in sorted(self._gangs.items()) if state.damaged and state.complete]

    def forget_waiting(self) -> None:
        for job_id, state in list(self._gangs.items()):
            state.waiting.clear()
            state.stands = None
            if not (state.running or state.over):
                del self._gangs[job_id]

    def _of(self, task: TaskBrief) -> GangState:
        assert task.gang is not None, "only the tasks of gangs stand in this book"
        state = self._gangs.get(task.task_id.job_id)
        if state is None:
            state = self._gangs[task.task_id.job_id] = GangState(
                task.task_id.job_id, task.gang, over=task.gang.over
            )
        return state
