"""The rows of jobs in a memory store: what became of their tasks, as a database would show it."""

from dataclasses import replace

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Exit, Job
from tgpu.domain.lifecycle import Status
from tgpu.store.job_sum import JobSum
from tgpu.store.memory_state import State


class JobRows:
    """Within one commit. `before` is where the task stood."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._sums: dict[int, JobSum] = {}

    def assigned(self, attempt: Attempt, before: Status) -> None:
        job_id, number = attempt.attempt_id.job_id, attempt.attempt_id.number
        if (job := self._sum(job_id)) is not None:
            job.moved(before, Status.SCHEDULED)
            job.assigned(attempt.attempt_id, attempt.node_id)
            return
        self._put(
            replace(
                self._state.jobs[job_id],
                status=Status.SCHEDULED,
                attempts=number,
                node_id=attempt.node_id,
                devices=attempt.devices,
            )
        )

    def started(self, attempt_id: AttemptId, before: Status, at_ms: int) -> None:
        if (job := self._sum(attempt_id.job_id)) is not None:
            job.moved(before, Status.RUNNING)
            job.began(at_ms)
        else:
            row = self._state.jobs[attempt_id.job_id]
            self._put(replace(row, status=Status.RUNNING, started_ms=at_ms))

    def returned(self, attempt: Attempt, before: Status) -> None:
        """`attempt`: as it runs now."""
        job_id = attempt.attempt_id.job_id
        if (job := self._sum(job_id)) is not None:
            job.moved(before, Status.RUNNING)
            job.assigned(attempt.attempt_id, attempt.node_id)
            job.began(attempt.started_ms)
            return
        self._put(
            replace(
                self._state.jobs[job_id],
                status=Status.RUNNING,
                node_id=attempt.node_id,
                devices=attempt.devices,
                started_ms=attempt.started_ms,
            )
        )

    def put_back(self, job_id: int, before: Status, after: Status) -> None:
        if (job := self._sum(job_id)) is not None:
            job.moved(before, after)
        else:
            row = self._state.jobs[job_id]
            self._put(replace(row, status=after, node_id=None, devices=(), started_ms=None))

    def closed(self, job_id: int, before: Status, after: Status, how: Exit) -> None:
        """Without having run."""
        if (job := self._sum(job_id)) is not None:
            job.moved(before, after)
            job.ended(after, how, how.detail, how.ended_ms)
            return
        row = self._state.jobs[job_id]
        self._put(
            replace(
                row,
                status=after,
                cause=how.cause,
                detail=how.detail,
                exit_code=None,
                node_id=None,
                devices=(),
                started_ms=None,
                ended_ms=how.ended_ms,
            )
        )

    def ended(self, attempt: Attempt, before: Status, after: Status, how: Exit, fails_job: str) -> None:
        """`how`: with the words that the job shows, and when it ended; of one of several `fails_job` instead,
        if that is said."""
        job_id = attempt.attempt_id.job_id
        if (job := self._sum(job_id)) is not None:
            job.moved(before, after)
            job.began(attempt.started_ms)
            job.ended(after, how, how.detail, how.ended_ms, fails_job)
            return
        self._put(
            replace(
                self._state.jobs[job_id],
                status=after,
                cause=how.cause,
                detail=how.detail,
                exit_code=how.exit_code,
                node_id=attempt.node_id,
                devices=attempt.devices,
                started_ms=attempt.started_ms,
                ended_ms=how.ended_ms,
            )
        )

    @property
    def statuses(self) -> dict[int, Status]:
        """Of those of several tasks: where they stand now."""
        return {job_id: job.status for job_id, job in self._sums.items()}

    def failed(self, job_id: int) -> None:
        """An attempt of one of its tasks, and it counts."""
        if (job := self._sum(job_id)) is not None:
            job.failed()

    def passed_over(self, job_id: int, tasks: int, how: Exit) -> None:
        """So many of its tasks are cancelled before they have rows."""
        job = self._sum(job_id)
        assert job is not None, "only a job of several tasks has such"
        job.pass_over(tasks, how, how.ended_ms)

    def dropped(self, job_id: int, tasks: int, how: Exit, *, counted: int) -> None:
        """So many of its tasks never get rows; some of them count as cancelled already."""
        job = self._sum(job_id)
        assert job is not None, "only a job of several tasks has such"
        job.drop(tasks, how, how.ended_ms, counted=counted)

    def write(self) -> None:
        for job_id, job in self._sums.items():
            ending = job.ending
            self._state.tallies[job_id] = job.tally
            self._put(
                replace(
                    self._state.jobs[job_id],
                    status=job.status,
                    counts=job.tally.counts,
                    dropped=job.tally.dropped,
                    failures=job.tally.failures,
                    attempts=job.attempts,
                    node_id=job.node_id,
                    started_ms=job.started_ms,
                    cause=None if ending is None else ending.cause,
                    detail="" if ending is None else ending.detail,
                    exit_code=None if ending is None else ending.exit_code,
                    ended_ms=job.ended_ms,
                )
            )

    def _sum(self, job_id: int) -> JobSum | None:
        """None of a job of one task."""
        known, tally = self._sums.get(job_id), self._state.tallies.get(job_id)
        if known is None and tally is not None:
            job = self._state.jobs[job_id]
            known = self._sums[job_id] = JobSum(tally, job.node_id, job.attempts, job.started_ms)
        return known

    def _put(self, job: Job) -> None:
        self._state.jobs[job.job_id] = job
