"""Nothing is preempted for nothing, and what was preempted is not lost."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Job
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.quota import JobLimits, Limits
from tgpu.domain.tenant import lineage
from tgpu.sim.facts import Watcher
from tgpu.sim.world import World
from tgpu.store.port import Assigned, AttemptEnded, Batch, Receipt, StopOrdered


@dataclass(slots=True)
class _Promise:
    """What a job is owed for whose sake others were told to go."""

    node_ids: set[str] = field(default_factory=set)
    """Where the victims are: of one task on one node, unless it or one of them is of a gang."""
    victims: dict[AttemptId, None] = field(default_factory=dict)


class NothingPreemptedForNothing(Watcher):
    """With the very commit that takes the end of the last victim, the job starts on the node of its victims.

    A promise is off when the job ended, is to be cancelled or goes on with an attempt that was lost, when its
    node is away, comes again or is described anew, and when a quota refuses its start after all. All are off
    when the picture is loaded again: claims live in the leader's memory.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._state = world.store.state
        self._promises: dict[int, _Promise] = {}

    def loaded(self) -> Iterator[str]:
        self._promises.clear()
        yield from ()

    def greeted(self, agent: str, epoch: int) -> Iterator[str]:
        """Whose agent says hello was away before."""
        del epoch
        node_id = agent.partition(".")[0]
        self._promises = {
            job: promise for job, promise in self._promises.items() if node_id not in promise.node_ids
        }
        yield from ()

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        self._call_off(batch)
        for start in batch.assigned:
            if start not in receipt.refused:
                yield from self._kept(start)
            elif self._is_limited(start):
                self._promises.pop(start.attempt_id.job_id, None)
        yield from self._broken()
        for stop in batch.stop_ordered:
            if stop.cause is Cause.PREEMPTED:
                yield from self._promised(stop, taken=stop not in receipt.refused)

    def at_rest(self) -> Iterator[str]:
        for job_id, promise in self._promises.items():
            yield f"{_names(promise)} had to go for job {job_id}, which never got their place"

    def _call_off(self, batch: Batch) -> None:
        anew = {node.node_id for node in batch.nodes}
        back = {change.attempt_id.job_id for change in batch.returned}
        for job_id, promise in list(self._promises.items()):
            job = self._state.jobs[job_id]
            altered = job_id in self._state.changed_seq  # held or suspended meanwhile, it lost its place
            over = job.status.is_final or job.cancel_by is not None or job_id in back or altered
            if over or promise.node_ids & anew or any(map(self._is_away, promise.node_ids)):
                del self._promises[job_id]

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
        promise = self._promises.pop(start.attempt_id.job_id, None)
        if promise is None:
            return
        job = f"job {start.attempt_id.job_id}"
        in_gang = self._state.jobs[start.attempt_id.job_id].spec.gang is not None
        if start.node_id not in promise.node_ids and not in_gang:
            where = ", ".join(sorted(promise.node_ids))
            yield f"{_names(promise)} had to go from {where} for {job}: starts on {start.node_id}"
        for victim in promise.victims:
            if self._attempt(victim).state.is_live:
                yield f"{job} starts on {start.node_id}, and {victim}, which makes way for it, is still there"

    def _broken(self) -> Iterator[str]:
        for job_id, promise in list(self._promises.items()):
            if not any(self._attempt(victim).state.is_live for victim in promise.victims):
                del self._promises[job_id]
                where = ", ".join(sorted(promise.node_ids))
                yield f"{_names(promise)} went from {where} for job {job_id}, which does not start"

    def _promised(self, stop: StopOrdered, *, taken: bool) -> Iterator[str]:
        word, _, number = (stop.by or "").partition(" ")
        if word != "job" or not number.isdecimal() or int(number) not in self._state.jobs:
            yield f"{stop.attempt_id} has to go, and nobody knows for whom: {stop.by!r}"
        elif not taken:
            yield f"{stop.attempt_id} was to go for {stop.by}, and that was refused"
        elif self._state.jobs[int(number)].spec.series is None:  # of many tasks, nobody says for which
            attempt = self._attempt(stop.attempt_id)
            promise = self._promises.setdefault(int(number), _Promise())
            promise.victims[stop.attempt_id] = None
            promise.node_ids.add(attempt.node_id)
            concerned = [int(number), *(victim.job_id for victim in promise.victims)]
            gangs = any(self._state.jobs[job_id].spec.gang is not None for job_id in concerned)
            if len(promise.node_ids) > 1 and not gangs:
                yield f"for {stop.by} {_names(promise)} have to go from more nodes than one"

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
        self._returned: set[int] = set()
        """Jobs that went on with an attempt that was lost, or were ended by one: these need no other try."""

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        self._returned |= {change.attempt_id.job_id for change in batch.returned}
        for ended in batch.ended:
            if ended.attempt_id.number < self._state.tasks[ended.attempt_id.task_id].attempts:
                self._returned.add(ended.attempt_id.job_id)
            if ended.exit.cause is Cause.PREEMPTED and ended not in receipt.refused:
                yield from self._went(ended)

    def _went(self, ended: AttemptEnded) -> Iterator[str]:
        job = self._state.jobs[ended.attempt_id.job_id]
        expected = Happening.PREEMPTED if job.spec.requeue else Happening.FAILED
        if ended.happening is Happening.PREEMPTED:
            self._preempted[ended.attempt_id] = None
        if ended.happening is Happening.CANCELLED and job.cancel_by is not None:
            return
        others = job.spec.gang is not None or job.spec.series is not None
        ends = ended.happening in (Happening.FAILED, Happening.CANCELLED)
        if ended.happening is not expected and not (others and ends):  # another one of it may have failed
            yield f"{ended.attempt_id} had to give way, and its task is {ended.happening}, not {expected}"

    def at_rest(self) -> Iterator[str]:
        for attempt_id in self._preempted:
            job = self._state.jobs[attempt_id.job_id]
            if not job.status.is_final:
                yield f"{attempt_id} had to give way, and its job is still {job.status}"
            elif job.job_id not in self._returned and self._is_its_last(attempt_id, job):
                yield f"{attempt_id} had to give way, and its job is {job.status} without having run again"

    def _is_its_last(self, attempt_id: AttemptId, job: Job) -> bool:
        """And nobody wanted that: not its user, and none of its gang failed."""
        last = self._state.tasks[attempt_id.task_id].attempts == attempt_id.number
        return last and job.cancel_by is None and job.spec.gang is None and job.spec.series is None


def _names(promise: _Promise) -> str:
    return ", ".join(map(str, promise.victims))
