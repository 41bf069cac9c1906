"""Tasks that nobody may start, wherever there is room: their jobs are held, or wait for others."""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief


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

    def take(self, task_id: TaskId) -> TaskBrief:
        tasks = self._jobs[task_id.job_id]
        task = tasks.pop(task_id)
        if not tasks:
            del self._jobs[task_id.job_id]
        return task
