"""Nothing is preempted for nothing, and what was preempted is not lost."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Job
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.quota import JobLimits, Limits
from tgpu.domain.tenant import lineage
from tgpu.sim.facts import Watcher
from tgpu.sim.world import World
from tgpu.store.memory_state import State
from tgpu.store.port import Assigned, AttemptEnded, Batch, Receipt, StopOrdered


def _concerned(state: State, task_id: TaskId) -> TaskId:
    """Whom it is about: of a series each task by itself, of any other job all together."""
    return task_id if state.jobs[task_id.job_id].spec.series is not None else TaskId(task_id.job_id, 0)


@dataclass(slots=True)
class _Promise:
    """What a job, or a task of a series, is owed for whose sake others were told to go."""

    node_ids: set[str] = field(default_factory=set)
    """Where the victims are: of one task on one node, unless it or one of them is of a gang."""
    victims: dict[AttemptId, None] = field(default_factory=dict)


class NothingPreemptedForNothing(Watcher):
    """With the very commit that takes the end of the last victim, the job starts on the node of its victims.
    Of a series the task does that has the claim; who that is only the leader knows, and is asked.

    A promise is off when the job ended, is to be cancelled or goes on with an attempt that was lost, when its
    node is away, comes again or is described anew, and when a quota refuses its start after all. All are off
    when the picture is loaded again: claims live in the leader's memory.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._state = world.store.state
        self._promises: dict[TaskId, _Promise] = {}

    def loaded(self) -> Iterator[str]:
        self._promises.clear()
        yield from ()

    def greeted(self, agent: str, epoch: int) -> Iterator[str]:
        """Whose agent says hello was away before."""
        del epoch
        node_id = agent.partition(".")[0]
        self._promises = {
            whose: promise for whose, promise in self._promises.items() if node_id not in promise.node_ids
        }
        yield from ()

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        self._call_off(batch)
        for start in batch.assigned:
            if start not in receipt.refused:
                yield from self._kept(start)
            elif self._is_limited(start):
                self._promises.pop(_concerned(self._state, start.attempt_id.task_id), None)
        yield from self._broken()
        for stop in batch.stop_ordered:
            if stop.cause is Cause.PREEMPTED:
                yield from self._promised(stop, taken=stop not in receipt.refused)

    def at_rest(self) -> Iterator[str]:
        for whose, promise in self._promises.items():
            yield f"{_names(promise)} had to go for task {whose}, which never got their place"

    def _call_off(self, batch: Batch) -> None:
        anew = {node.node_id for node in batch.nodes}
        back = {_concerned(self._state, change.attempt_id.task_id) for change in batch.returned}
        for whose, promise in list(self._promises.items()):
            job = self._state.jobs[whose.job_id]
            altered = job.job_id in self._state.changed_seq  # held or suspended meanwhile, it lost its place
            over = job.status.is_final or job.cancel_by is not None or whose in back or altered
            over = over or (job.spec.series is not None and _is_not_wanted(self._state, whose))
            if over or promise.node_ids & anew or any(map(self._is_away, promise.node_ids)):
                del self._promises[whose]

    def _is_limited(self, start: Assigned) -> bool:
        """Whether a quota may have refused it, which was made smaller since its victims were told to go."""
        names = lineage(self._state.jobs[start.attempt_id.job_id].spec.tenant_id)
        tenants = [self._state.tenants[name] for name in names]
        return any((each.limits, each.job_limits) != (Limits(), JobLimits()) for each in tenants)

    def _is_away(self, node_id: str) -> bool:
        """As the leader sees it; whoever commits leads."""
        picture = self._world.picture
        return picture is None or not picture.places[node_id].takes_tasks

    def _kept(self, start: Assigned) -> Iterator[str]:
        promise = self._promises.pop(_concerned(self._state, start.attempt_id.task_id), None)
        if promise is None:
            return
        job = f"task {start.attempt_id.task_id}"
        in_gang = self._state.jobs[start.attempt_id.job_id].spec.gang is not None
        if start.node_id not in promise.node_ids and not in_gang:
            where = ", ".join(sorted(promise.node_ids))
            yield f"{_names(promise)} had to go from {where} for {job}: starts on {start.node_id}"
        for victim in promise.victims:
            if self._attempt(victim).state.is_live:
                yield f"{job} starts on {start.node_id}, and {victim}, which makes way for it, is still there"

    def _broken(self) -> Iterator[str]:
        for whose, promise in list(self._promises.items()):
            if not any(self._attempt(victim).state.is_live for victim in promise.victims):
                del self._promises[whose]
                where = ", ".join(sorted(promise.node_ids))
                yield f"{_names(promise)} went from {where} for task {whose}, which does not start"

    def _promised(self, stop: StopOrdered, *, taken: bool) -> Iterator[str]:
        word, _, number = (stop.by or "").partition(" ")
        if word != "job" or not number.isdecimal() or int(number) not in self._state.jobs:
            yield f"{stop.attempt_id} has to go, and nobody knows for whom: {stop.by!r}"
        elif not taken:
            yield f"{stop.attempt_id} was to go for {stop.by}, and that was refused"
        elif (whose := self._for_whom(stop, int(number))) is None:
            yield f"{stop.attempt_id} has to go for {stop.by}, of which no task has a claim to its place"
        else:
            attempt = self._attempt(stop.attempt_id)
            promise = self._promises.setdefault(whose, _Promise())
            promise.victims[stop.attempt_id] = None
            promise.node_ids.add(attempt.node_id)
            concerned = [whose.job_id, *(victim.job_id for victim in promise.victims)]
            gangs = any(self._state.jobs[job_id].spec.gang is not None for job_id in concerned)
            if len(promise.node_ids) > 1 and not gangs:
                yield f"for {stop.by} {_names(promise)} have to go from more nodes than one"

    def _for_whom(self, stop: StopOrdered, job_id: int) -> TaskId | None:
        if self._state.jobs[job_id].spec.series is None:
            return TaskId(job_id, 0)
        preempts = () if self._world.picture is None else self._world.picture.preempts
        claims = [claim for each in preempts if stop.attempt_id in each.victims for claim in each.claims]
        return next((claim.task_id for claim in claims if claim.task_id.job_id == job_id), None)

    def _attempt(self, attempt_id: AttemptId) -> Attempt:
        attempt = self._state.attempt(attempt_id)
        assert attempt is not None, "who was told to go was there"
        return attempt


class PreemptedIsNeverLost(Watcher):
    """Who had to go waits again and then runs again to an end of its own.

    Unless it is to be cancelled, or its job allows only one try: then it has failed, and only then.
    """

    def __init__(self, world: World) -> None:
        self._state = world.store.state
        self._preempted: dict[AttemptId, None] = {}
        self._returned: set[TaskId] = set()
        """Who went on with an attempt that was lost, or was ended by one: these need no other try."""

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        self._returned |= {_concerned(self._state, change.attempt_id.task_id) for change in batch.returned}
        for ended in batch.ended:
            if ended.attempt_id.number < self._state.tasks[ended.attempt_id.task_id].attempts:
                self._returned.add(_concerned(self._state, ended.attempt_id.task_id))
            if ended.exit.cause is Cause.PREEMPTED and ended not in receipt.refused:
                yield from self._went(ended, batch.at_ms)

    def _went(self, ended: AttemptEnded, at_ms: int) -> Iterator[str]:
        task_id = ended.attempt_id.task_id
        job = self._state.jobs[task_id.job_id]
        expected = Happening.PREEMPTED if job.spec.requeue else Happening.FAILED
        if ended.happening is Happening.PREEMPTED:
            self._preempted[ended.attempt_id] = None
        if ended.happening is Happening.CANCELLED and _is_cancelled(self._state, task_id):
            return
        others = job.spec.gang is not None or _is_ended_as_a_whole(self._state, task_id, at_ms)
        ends = ended.happening in (Happening.FAILED, Happening.CANCELLED)
        if ended.happening is not expected and not (others and ends):  # another one of it may have failed
            yield f"{ended.attempt_id} had to give way, and its task is {ended.happening}, not {expected}"

    def at_rest(self) -> Iterator[str]:
        for attempt_id in self._preempted:
            job = self._state.jobs[attempt_id.job_id]
            if not job.status.is_final:
                yield f"{attempt_id} had to give way, and its job is still {job.status}"
            elif _concerned(self._state, attempt_id.task_id) in self._returned:
                continue
            elif self._is_its_last(attempt_id, job):
                yield f"{attempt_id} had to give way, and its job is {job.status} without having run again"

    def _is_its_last(self, attempt_id: AttemptId, job: Job) -> bool:
        """And nobody wanted that: not its user, and no other task of its job failed."""
        task_id = attempt_id.task_id
        last = self._state.tasks[task_id].attempts == attempt_id.number
        if not last or job.spec.gang is not None or _is_cancelled(self._state, task_id):
            return False
        if self._state.tasks[task_id].cause is Cause.DEADLINE and job.timing and job.timing.deadline_ms:
            return False
        return not _is_ended_as_a_whole(self._state, task_id, job.ended_ms or 0)


def _is_cancelled(state: State, task_id: TaskId) -> bool:
    """Its user wants it, or its whole job, to end."""
    return state.jobs[task_id.job_id].cancel_by is not None or state.tasks[task_id].cancel_by is not None


def _is_not_wanted(state: State, task_id: TaskId) -> bool:
    """It is over without having started, or about to be."""
    return state.tasks[task_id].status.is_final or _is_cancelled(state, task_id)


def _is_ended_as_a_whole(state: State, task_id: TaskId, at_ms: int) -> bool:
    """Whether its job, a series, may have ended by then without this task having come to its own end: another
    one has failed, or has done all the work, or it is too late."""
    job = state.jobs[task_id.job_id]
    if job.spec.series is None:
        return False
    others = {task.status for other, task in state.tasks_of(job.job_id) if other != task_id}
    done = job.spec.is_work_queue and Status.COMPLETED in others
    failed = job.spec.retries is not None and Status.FAILED in others
    allowed_s = job.spec.active_deadline_s
    return done or failed or (allowed_s is not None and at_ms >= job.submitted_ms + 1000 * allowed_s)


def _names(promise: _Promise) -> str:
    return ", ".join(map(str, promise.victims))
