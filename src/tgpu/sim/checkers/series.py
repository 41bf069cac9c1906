"""A series does what was asked for: so many at once, no more tries than that, and none once it has failed."""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.retries import backoff_s
from tgpu.sim.facts import Watcher
from tgpu.store.event_data import EDITED
from tgpu.store.memory_state import State
from tgpu.store.port import Assigned, AttemptEnded, Batch, Receipt

_HAVE_A_NODE = (Status.SCHEDULED, Status.RUNNING)


class SeriesKeepTheirWord(Watcher):
    """Of single jobs the same holds, as far as it concerns them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._failures: dict[TaskId, int] = {}
        """How many failures of each task count."""
        self._not_before_ms: dict[TaskId, int] = {}
        """Until when those wait that are tried again, whoever leads by then."""
        self._edited: set[int] = set()
        """Jobs whose cap may have been changed."""
        self._seen_seq = 0

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        for ended in batch.ended:
            if ended not in receipt.refused:
                yield from self._ended(ended, batch.at_ms)
        for start in batch.assigned:
            if start not in receipt.refused:
                yield from self._started(start, batch.at_ms)
        self._note_edits()
        began = {start.attempt_id.job_id for start in batch.assigned if start not in receipt.refused}
        for job_id in sorted(began | {grown.job_id for grown in receipt.grown}):
            yield from self._too_many_at_once(self._state.jobs[job_id])

    def _ended(self, ended: AttemptEnded, at_ms: int) -> Iterator[str]:
        task_id, cause = ended.attempt_id.task_id, ended.exit.cause
        job = self._state.jobs[task_id.job_id]
        if ended.counts:
            self._failures[task_id] = self._failures.get(task_id, 0) + 1
            if cause.is_infrastructure or cause in (Cause.PREEMPTED, Cause.SUSPENDED, Cause.RESTARTED):
                yield f"{ended.attempt_id} counts as a failure of the user's, and its cause is {cause}"
            yield from self._tried_too_often(job, ended)
        if ended.happening is Happening.REQUEUED and ended.counts:
            self._not_before_ms[task_id] = at_ms + 1000 * backoff_s(self._failures[task_id])

    def _tried_too_often(self, job: Job, ended: AttemptEnded) -> Iterator[str]:
        retries, again = job.spec.retries, ended.happening is Happening.REQUEUED
        if retries is None:
            yield f"{ended.attempt_id} counts as a failure, and its job says nothing of retries"
            return
        own = self._failures[ended.attempt_id.task_id]
        all_of_it = sum(n for task_id, n in self._failures.items() if task_id.job_id == job.job_id)
        if again and retries.per_index is not None and own > retries.per_index:
            yield f"{ended.attempt_id} is tried again after {own} failures, {retries.per_index} are allowed"
        if again and retries.limit is not None and all_of_it > retries.limit:
            yield f"{ended.attempt_id} is tried again after {all_of_it} failures of its job"

    def _started(self, start: Assigned, at_ms: int) -> Iterator[str]:
        task_id = start.attempt_id.task_id
        job = self._state.jobs[task_id.job_id]
        if at_ms < self._not_before_ms.get(task_id, 0):
            yield f"{start.attempt_id} starts {self._not_before_ms[task_id] - at_ms} ms before it may"
        if job.timing is not None and job.timing.suspended_by is not None:
            yield f"{start.attempt_id} starts, and its job is suspended"
        if job.spec.series is None:
            return
        retries, others = job.spec.retries, [task.status for _, task in self._state.tasks_of(job.job_id)]
        most = None if retries is None else retries.max_failures
        if most is not None and others.count(Status.FAILED) > most:
            yield f"{start.attempt_id} starts, and more than {most} tasks of its job have failed"
        if job.spec.is_work_queue and Status.COMPLETED in others:
            yield f"{start.attempt_id} starts, and the work of its job is done"

    def _note_edits(self) -> None:
        for event in self._state.events_after(self._seen_seq):
            self._seen_seq = event.seq
            if event.kind == EDITED:
                self._edited.add(event.job_id)

    def _too_many_at_once(self, job: Job) -> Iterator[str]:
        """A cap may be lowered below the number of tasks that have rows: then none begins before enough have
        ended. A cap that was never changed holds for all tasks that are live."""
        series = job.spec.series
        if series is None or series.at_once is None:
            return
        statuses = [task.status for _, task in self._state.tasks_of(job.job_id)]
        begun = sum(status in _HAVE_A_NODE for status in statuses)
        live = sum(not status.is_final for status in statuses)
        if begun > series.at_once:
            yield f"of job {job.job_id} {begun} tasks have a node, and {series.at_once} may at once"
        if live > series.at_once and job.job_id not in self._edited:
            yield f"of job {job.job_id} {live} tasks are live, and {series.at_once} may be at once"
