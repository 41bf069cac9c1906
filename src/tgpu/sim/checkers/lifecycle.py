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
        self._born: dict[int, int] = {}
        """Of series that have grown: how many of their tasks have rows."""

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        """Tasks of a series that are new wait, without an event for each."""
        del epoch, batch
        self._born.update((grown.job_id, grown.born) for grown in receipt.grown)
        yield from ()

    def _stood(self, task_id: TaskId) -> Status | None:
        """One of a series that has grown waits from its birth on."""
        known = self._stands.get(task_id)
        if known is None and task_id.task_index < self._born.get(task_id.job_id, 0):
            return Status.PENDING
        return known

    def now_and_then(self) -> Iterator[str]:
        for event in self._state.events[self._seen :]:
            self._seen += 1
            if event.kind in _MOVES:
                task_id = TaskId(event.job_id, event.task_index or 0)
                happening = Happening(event.kind)
                before = None if happening is Happening.SUBMITTED else self._stood(task_id)
                if task_id in self._stands:
                    before = self._stands[task_id]
                try:
                    self._stands[task_id] = task_after(before, happening)
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
            stands = status_of(counts, work_queue=job.spec.is_work_queue and job.spec.task_count > 1)
            if (job.status, job.task_counts) != (stands, counts):
                yield f"job {job_id} is {job.status} {job.task_counts}, its tasks are {counts}"
            live = [a.attempt_id for a in self._state.attempts_of(job_id) if a.state.is_live]
            if job.status.is_final and live:
                yield f"job {job_id} is {job.status} and its attempts {live} live"
