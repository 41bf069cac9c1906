"""The events of every task are a legal path through the table of moves, and end where the task stands; a job
stands where its tasks do.
"""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job_status import status_of
from tgpu.domain.lifecycle import Happening, IllegalMoveError, Status, task_after
from tgpu.sim.facts import Watcher
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt

_MOVES = frozenset(Happening)


class OnlyLegalMoves(Watcher):
    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = 0
        self._stands: dict[TaskId, Status] = {}
        self._grown: dict[int, range] = {}
        """Of series that have grown: which tasks came later. They wait from then on, without an event for
        each."""

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        """Tasks are born in their order, each once, and no more than there are."""
        del epoch, batch
        for job_id, born, tasks in receipt.grown:
            before = self._grown.get(job_id) or self._at_first(job_id)
            fresh = range(before.stop, born)
            self._grown[job_id] = range(before.start, born)
            if not before.stop <= born <= self._state.jobs[job_id].spec.task_count:
                yield f"job {job_id} has {born} tasks after it had {before.stop}"
            for task in tasks:
                if task.task_id.task_index not in fresh or task.status is not Status.PENDING:
                    yield f"task {task.task_id} is {task.status}; new are {fresh.start} to {born - 1}"

    def _at_first(self, job_id: int) -> range:
        """None has come later: those with which it was submitted are told of one by one."""
        told = [e for e in self._state.events if e.job_id == job_id and e.kind == Happening.SUBMITTED]
        return range(len(told), len(told))

    def _stood(self, task_id: TaskId) -> Status | None:
        came_later = task_id.task_index in self._grown.get(task_id.job_id, ())
        return self._stands.get(task_id, Status.PENDING if came_later else None)

    def now_and_then(self) -> Iterator[str]:
        for event in self._state.events[self._seen :]:
            self._seen += 1
            if event.kind in _MOVES:
                task_id = TaskId(event.job_id, event.task_index or 0)
                try:
                    self._stands[task_id] = task_after(self._stood(task_id), Happening(event.kind))
                except IllegalMoveError as error:
                    yield f"task {task_id}: {error}"

    def at_rest(self) -> Iterator[str]:
        for job_id, job in self._state.jobs.items():
            counts: dict[Status, int] = {}
            for task_id, task in self._state.tasks_of(job_id):
                counts[task.status] = counts.get(task.status, 0) + 1
                if self._stood(task_id) is not task.status:
                    yield f"task {task_id} is {task.status}, its events end with {self._stood(task_id)}"
            if job.dropped:
                counts[Status.CANCELLED] = counts.get(Status.CANCELLED, 0) + job.dropped
            if sum(counts.values()) != job.spec.task_count:
                yield f"job {job_id} has {job.spec.task_count} tasks, and {counts} are told of"
            stands = status_of(counts, work_queue=job.spec.is_work_queue and job.spec.task_count > 1)
            if (job.status, job.task_counts) != (stands, counts):
                yield f"job {job_id} is {job.status} {job.task_counts}, its tasks are {counts}"
            live = [a.attempt_id for a in self._state.attempts_of(job_id) if a.state.is_live]
            if job.status.is_final and live:
                yield f"job {job_id} is {job.status} and its attempts {live} live"
