"""The events of every task are a legal path through the table of moves, and end where the task stands; a job
stands where its tasks do.
"""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job_status import status_of
from tgpu.domain.lifecycle import Happening, IllegalMoveError, Status, task_after
from tgpu.sim.facts import Watcher
from tgpu.store.memory_state import State

_MOVES = frozenset(Happening)


class OnlyLegalMoves(Watcher):
    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = 0
        self._stands: dict[TaskId, Status] = {}

    def now_and_then(self) -> Iterator[str]:
        for event in self._state.events[self._seen :]:
            self._seen += 1
            if event.kind in _MOVES:
                task_id = TaskId(event.job_id, event.task_index or 0)
                try:
                    self._stands[task_id] = task_after(self._stands.get(task_id), Happening(event.kind))
                except IllegalMoveError as error:
                    yield f"task {task_id}: {error}"

    def at_rest(self) -> Iterator[str]:
        for job_id, job in self._state.jobs.items():
            counts: dict[Status, int] = {}
            for task_id, task in self._state.tasks_of(job_id):
                counts[task.status] = counts.get(task.status, 0) + 1
                if self._stands.get(task_id) is not task.status:
                    yield f"task {task_id} is {task.status}, its events end with {self._stands.get(task_id)}"
            if (job.status, job.task_counts) != (status_of(counts), counts):
                yield f"job {job_id} is {job.status} {job.task_counts}, its tasks are {counts}"
            live = [a.attempt_id for a in self._state.attempts_of(job_id) if a.state.is_live]
            if job.status.is_final and live:
                yield f"job {job_id} is {job.status} and its attempts {live} live"
