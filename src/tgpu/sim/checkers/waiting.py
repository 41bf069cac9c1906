"""A job starts when it may: its needs are met, nobody holds it, its moment has come, its deadline has not."""

from collections.abc import Iterator

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.needs import Need, NeedKind
from tgpu.sim.facts import Watcher
from tgpu.sim.world import World
from tgpu.store.memory_state import State
from tgpu.store.port import Assigned, Batch, Receipt

LATE_MS = 3000
"""The clock is looked at now and then, and a commit may have to wait for the store."""
WHOLE = 1000
MOST_LOOKS = 240
"""Two minutes: whatever is wrong with servers and the store does not last that long."""


class NobodyStartsBeforeItMay(Watcher):
    """Judged by the store as it is with the very commit that gives a task its node."""

    def __init__(self, world: World) -> None:
        self._world, self._state = world, world.store.state

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        for start in batch.assigned:
            if start not in receipt.refused:
                yield from self._started(start, batch.at_ms)

    def _started(self, start: Assigned, at_ms: int) -> Iterator[str]:
        task_id = start.attempt_id.task_id
        job = self._state.jobs[task_id.job_id]
        for need in job.spec.needs:
            if not _is_met(self._state, job, task_id, need):
                yield f"{start.attempt_id} starts, and {need.kind}:{need.on} is not met"
        yield from self._in_time(start, job, at_ms)
        gpu_milli = self._state.tasks[task_id].request.gpu_milli
        if gpu_milli % WHOLE == 0 and len(start.devices) != gpu_milli // WHOLE:
            yield f"{start.attempt_id} starts with GPUs {start.devices}, and asks for {gpu_milli // WHOLE}"

    def _in_time(self, start: Assigned, job: Job, at_ms: int) -> Iterator[str]:
        timing = job.timing
        if timing is None:
            return
        if timing.held_by is not None:
            yield f"{start.attempt_id} starts, and {timing.held_by} holds its job"
        now_ms = self._world.now_ms()  # a turn may have begun before, and looked at the clock again
        if timing.begin_ms is not None and now_ms < timing.begin_ms:
            yield f"{start.attempt_id} starts {timing.begin_ms - now_ms} ms too early"
        starts_by = timing.starts_by(job.spec.time_limit_s)
        if starts_by is not None and at_ms > starts_by + LATE_MS:
            yield f"{start.attempt_id} starts {at_ms - starts_by} ms too late for its deadline"


class NeedsAreDecidedRight(Watcher):
    """Whose need can never be met ends for that, and nobody else does. That nobody waits for ever is seen
    where every job has to come to an end."""

    def __init__(self, state: State) -> None:
        self._state = state

    def at_rest(self) -> Iterator[str]:
        for job in self._state.jobs.values():
            for task_id, task in self._state.tasks_of(job.job_id):
                never = [need for need in job.spec.needs if not _is_met(self._state, job, task_id, need)]
                blamed = task.cause is Cause.DEPENDENCY_FAILED
                if blamed and not never:
                    yield f"task {task_id} has failed for its needs, and all of them are met"
                if never and task.status is Status.COMPLETED:
                    yield f"task {task_id} has completed, and needs that {never[0].on} ended otherwise"


class NeverMetEndsAtOnce(Watcher):
    """Not only in the end: who can never start does not wait for anything else before it fails."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen: dict[int, int] = {}
        """By job that can never start: how often it was seen so."""

    def now_and_then(self) -> Iterator[str]:
        doomed = [job.job_id for job in self._state.jobs.values() if self._is_doomed(job)]
        self._seen = {job_id: self._seen.get(job_id, 0) + 1 for job_id in doomed}
        for job_id, times in self._seen.items():
            if times == MOST_LOOKS:
                yield f"job {job_id} can never start, and has been waiting all the same for a long time"

    def _is_doomed(self, job: Job) -> bool:
        if job.status.is_final or job.timing is None or not job.timing.unmet:
            return False
        others = [(need, self._state.jobs.get(need.on)) for need in job.spec.needs if need.on]
        return any(
            need.kind is not NeedKind.CORR
            and other is not None
            and other.status.is_final
            and not need.kind.is_met_by(other.status)
            for need, other in others
        )


def _is_met(state: State, job: Job, task_id: TaskId, need: Need) -> bool:
    if need.kind is NeedKind.SINGLETON:
        return not any(
            other.job_id < job.job_id and (other.spec.user, other.spec.name) == (job.spec.user, job.spec.name)
            for other in state.jobs.values()
            if not other.status.is_final
        )
    if need.kind is NeedKind.CORR:
        theirs = state.tasks.get(TaskId(need.on, task_id.task_index))
        return theirs is not None and theirs.status is Status.COMPLETED
    other = state.jobs[need.on]
    return other.status.is_final and need.kind.is_met_by(other.status)
