"""What the store says of an end is what really happened: cause, exit code, and that it ran at all."""

from collections.abc import Iterator

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Job
from tgpu.domain.lifecycle import Cause, Status
from tgpu.sim.facts import Facts, Watcher
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt

_NEVER_RAN = frozenset(
    {
        Cause.COULD_NOT_START,
        Cause.CANCELLED,
        Cause.PREEMPTED,
        Cause.SUPERSEDED,
        Cause.DEVICE_LOST,
        Cause.GANG_BROKEN,
        Cause.GANG_RESTARTED,
        Cause.SUSPENDED,
        Cause.RESTARTED,
        Cause.JOB_FAILED,
        Cause.JOB_DONE,
        Cause.DEADLINE,
    }
)


class TrueEndings(Watcher):
    def __init__(self, facts: Facts, state: State) -> None:
        self._facts = facts
        self._state = state
        self._given_up: set[AttemptId] = set()

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch, receipt
        self._given_up |= {lost.attempt_id for lost in batch.lost}
        self._given_up |= {gone.attempt_id for gone in batch.gone}
        yield from ()

    def at_rest(self) -> Iterator[str]:
        for job in self._state.jobs.values():
            for attempt in self._state.attempts_of(job.job_id):
                if not self._is_out_of_sight(attempt):
                    yield from self._attempt(attempt, job)
            for task_id, task in self._state.tasks_of(job.job_id):
                if task.status is Status.COMPLETED:
                    yield from self._completed(task_id, self._state.attempts.get(task_id, []))
            if job.status is Status.COMPLETED and job.exit_code != 0:
                yield f"job {job.job_id} is completed with exit code {job.exit_code}"

    def _is_out_of_sight(self, attempt: Attempt) -> bool:
        """What is said of it is only that nobody knows."""
        silent = attempt.exit is not None and attempt.exit.cause is Cause.NODE_LOST
        return silent and attempt.attempt_id in self._given_up

    def _attempt(self, attempt: Attempt, job: Job) -> Iterator[str]:
        runs = self._facts.runs.get(str(attempt.attempt_id), [])
        said = attempt.exit
        if said is None:
            yield f"{attempt.attempt_id} has no end"
        elif not runs:
            waited = job.spec.once and said.cause is Cause.REBOOTED  # for a word of the leader
            if said.cause not in _NEVER_RAN and not waited:
                yield f"{attempt.attempt_id} ended as {said.cause} and never ran"
        else:
            real = runs[-1].end
            if real is None:
                yield f"{attempt.attempt_id} is said to have ended as {said.cause} and runs on"
            elif (said.cause, said.exit_code, said.signal) != (real.cause, real.exit_code, real.signal):
                yield (
                    f"{attempt.attempt_id} is said to have ended as {said.cause} {said.exit_code} "
                    f"{said.signal}, in truth {real.cause} {real.exit_code} {real.signal}"
                )

    def _completed(self, task_id: TaskId, attempts: list[Attempt]) -> Iterator[str]:
        ended_well = [
            run
            for attempt in attempts
            for run in self._facts.runs.get(str(attempt.attempt_id), [])
            if run.end is not None and (run.end.cause, run.end.exit_code) == (Cause.EXITED, 0)
        ]
        replaced = any(attempt.attempt_id in self._given_up for attempt in attempts)
        if not ended_well or (len(ended_well) > 1 and not replaced):
            yield f"task {task_id} is completed and ran to its end {len(ended_well)} times"
