"""How many attempts of a task live: another one only if the first was given up, and one again in the end."""

from collections.abc import Iterator

from tgpu.control.loop import Timers
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.sim.facts import Facts, Run, Watcher
from tgpu.sim.world import World
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt

AWARE_S = 1.0
"""A turn takes so long, from its beginning to its decision, that somebody may have been heard meanwhile."""
SOON_S = 15.0
"""Grace, and orders that were lost on their way and said again."""


class OneLiveAttempt(Watcher):
    """No attempt ever runs twice. A second one of a task starts only when the other was given up, and that
    only after its node was silent for the whole loss time. If that one is heard again just then, the order to
    start the second may be on its way; it is told to stop, and how soon that is, is another question."""

    def __init__(self, facts: Facts, state: State) -> None:
        self._facts = facts
        self._state = state

    def process_started(self, run: Run) -> Iterator[str]:
        if run.attempt in self._facts.runs:
            yield f"attempt {run.attempt} starts a second time"
        own = self._state.attempt(run.attempt_id)
        if own is not None and own.stop_cause is Cause.SUPERSEDED:
            return
        for other in _others(self._facts, run):
            attempt = self._state.attempt(other.attempt_id)
            if attempt is None or not _is_given_up(attempt):
                where = f"on {run.node_id}, {other.attempt} lives on {other.node_id}"
                yield f"attempt {run.attempt} starts {where}"

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch
        for lost in batch.lost:
            attempt = self._state.attempt(lost.attempt_id)
            if attempt is None or lost in receipt.refused:
                continue
            heard = [at for at in self._facts.heard.get(attempt.node_id, ()) if at <= batch.at_ms / 1000]
            silent_s = batch.at_ms / 1000 - heard[-1] if heard else Timers().node_silent_s
            if silent_s < Timers().node_silent_s - AWARE_S:
                yield f"{lost.attempt_id} is given up, {attempt.node_id} was heard {silent_s:.1f} s before"


class OnceIsOnce(Watcher):
    """Of a task that lives at most once, never two attempts run: all but one are frozen, or over."""

    def __init__(self, facts: Facts, state: State) -> None:
        self._facts = facts
        self._state = state

    def process_started(self, run: Run) -> Iterator[str]:
        yield from self._alone(run, "starts")

    def process_thawed(self, run: Run) -> Iterator[str]:
        yield from self._alone(run, "goes on")

    def _alone(self, run: Run, does: str) -> Iterator[str]:
        if self._state.jobs[run.attempt_id.job_id].spec.once:
            for other in _others(self._facts, run):
                if not other.frozen:
                    yield f"{run.attempt} lives at most once and {does} while {other.attempt} runs"


class OneAttemptAfterReturn(Watcher):
    """When a node that was lost is heard again, and the leader knows what it has, one is left soon."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._since: dict[TaskId, float] = {}

    def now_and_then(self) -> Iterator[str]:
        now, twice = self._world.loop.time(), self._twice()
        self._since = {task_id: self._since.get(task_id, now) for task_id in twice}
        for task_id, since in self._since.items():
            if now - since > SOON_S:
                names = " and ".join(map(str, twice[task_id]))
                yield f"{names} live since {since:.1f}, where they can be reached"

    def _twice(self) -> dict[TaskId, list[AttemptId]]:
        leader, network = self._world.leader, self._world.network
        within_reach: dict[TaskId, list[AttemptId]] = {}
        for run in self._world.facts.live.values():
            reachable = leader is not None and leader.hub.is_settled(run.node_id)
            if reachable and not network.is_cut_off(run.node_id):
                within_reach.setdefault(run.attempt_id.task_id, []).append(run.attempt_id)
        return {task_id: runs for task_id, runs in within_reach.items() if len(runs) > 1}


def _others(facts: Facts, run: Run) -> list[Run]:
    task_id = run.attempt_id.task_id
    return [it for it in facts.live.values() if it is not run and it.attempt_id.task_id == task_id]


def _is_given_up(attempt: Attempt) -> bool:
    """Lost, or left behind for another one: or both, and then gone."""
    if attempt.state is AttemptState.LOST or attempt.stop_cause is Cause.SUPERSEDED:
        return True
    return attempt.exit is not None and attempt.exit.cause is Cause.NODE_LOST
