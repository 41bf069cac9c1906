"""Tasks that nobody may start, wherever there is room: held, or waiting for other jobs or for a moment."""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Status


def rests_until(task: TaskBrief) -> int:
    """The moment from which on it is in line: as it was asked for, or some time after it failed. Until then
    nothing is kept for it; who gave way sleeps in its place in line instead."""
    begin_ms = 0 if task.timing is None else task.timing.begin_ms or 0
    failed = task.retries is not None and task.attempts > 0 and task.status is not Status.PREEMPTED
    return max(begin_ms, task.eligible_ms) if failed else begin_ms


class Parked:
    """Beside all queues: no plan looks at them."""

    def __init__(self) -> None:
        self._jobs: dict[int, dict[TaskId, TaskBrief]] = {}

    def __iter__(self) -> Iterator[TaskBrief]:
        for tasks in self._jobs.values():
            yield from tasks.values()

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._jobs.get(task_id.job_id, ())

    def add(self, task: TaskBrief) -> None:
        self._jobs.setdefault(task.task_id.job_id, {})[task.task_id] = task

    def get(self, task_id: TaskId) -> TaskBrief | None:
        return self._jobs.get(task_id.job_id, {}).get(task_id)

    def of_job(self, job_id: int) -> list[TaskBrief]:
        return list(self._jobs.get(job_id, {}).values())

    def one_of_each_job(self) -> Iterator[TaskBrief]:
        for tasks in self._jobs.values():
            yield next(iter(tasks.values()))

    def number_of(self, job_id: int) -> int:
        return len(self._jobs.get(job_id, ()))

    def take(self, task_id: TaskId) -> TaskBrief:
        tasks = self._jobs[task_id.job_id]
        task = tasks.pop(task_id)
        if not tasks:
            del self._jobs[task_id.job_id]
        return task
