"""Decisions, checked again and committed in one fenced transaction; what no longer holds is handed back."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from tgpu.control.containment import about_job
from tgpu.control.turn import Turn
from tgpu.core.engine import Engine
from tgpu.core.invariants import violations
from tgpu.core.picture import Picture, Placed
from tgpu.core.plan import Plan, Preempt
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.exit_words import ON_BURST
from tgpu.domain.lifecycle import Cause
from tgpu.store.lost import AttemptLost, AttemptReturned, Superseded
from tgpu.store.port import Assigned, Batch, Receipt, StopOrdered, Store

MOST_ASSIGNED = 1000
"""In one transaction, or a little more: nodes are told, and users' jobs taken in, between two of them."""
MOST_STARTS = 2000
"""In one plan, or a little more: an urgent task that arrives meanwhile waits for so many, not for all."""
RETRY_MS = 1000
"""Whose start was refused is not tried again before: what the store knew better has to come here first."""
NOT_HANDED_BACK = (AttemptLost, AttemptReturned, Superseded)
"""If one of these does not hold, the picture was wrong: it has to be loaded again."""


class BrokenPromiseError(Exception):
    """A plan that would give out what is not there: a bug, stopped before it is committed."""


def decide(picture: Picture, policy: Policy, turn: Turn, *, whole: bool, engine: Engine) -> Plan:
    made = plan(picture, policy, whole=whole, engine=engine, most_starts=MOST_STARTS)
    assume(picture, made, turn)
    return made


def assume(picture: Picture, made: Plan, turn: Turn) -> None:
    """The picture takes the plan as done, so that the next one does not give the same room away twice."""
    if picture.claims:
        picture.fulfil({start.task_id for start in made.starts})
    placed: list[Placed] = []
    for start in made.starts:
        task = picture.remove_waiting(start.task_id)
        attempt_id = start.task_id.attempt(task.attempts + 1)
        placed.append(picture.place(task, attempt_id, start.node_id, start.devices, start.admission))
        turn.waited[start.task_id] = task
        reserve = picture.policy.gpu_ms(task)
        turn.batch.assigned.append(
            Assigned(attempt_id, start.node_id, start.devices, start.admission, reserve)
        )
    for preempt in made.preempts:
        _make_way(picture, preempt, turn)
    picture.settle(made)
    broken = _broken_by(placed, picture)
    if broken:
        raise BrokenPromiseError("; ".join(broken))


def _broken_by(placed: list[Placed], picture: Picture) -> list[str]:
    """Only what these have broken: a node that came back smaller may have been too full before them."""
    touched = dict.fromkeys(each.node_id for each in placed)
    broken = violations(picture, touched)
    if not broken:
        return []
    for each in placed:
        del picture.places[each.node_id].attempts[each.attempt_id]
    before = violations(picture, touched)
    for each in placed:
        picture.places[each.node_id].attempts[each.attempt_id] = each
    return [text for text in broken if text not in before]


def _make_way(picture: Picture, preempt: Preempt, turn: Turn) -> None:
    """Those who are stopped are told for whom: their users will ask."""
    picture.preempt(preempt)
    by = f"job {preempt.claims[0].task_id.job_id}"
    for victim in preempt.victims:
        placed = picture.live(victim)
        assert placed is not None, "a plan stops only who is there"
        placed.stop_detail = ON_BURST if placed.task.burst else ""
        picture.stopping(placed, Cause.PREEMPTED)
        turn.batch.stop_ordered.append(StopOrdered(victim, Cause.PREEMPTED, by))


def parts(turn: Turn, *, one_by_one: bool = False) -> Iterator[Turn]:
    """The same in several transactions if much was assigned, so that others may write in between. All tasks
    of a job stay together: a gang is committed whole or not at all."""
    most = 1 if one_by_one else MOST_ASSIGNED
    if len(turn.batch.assigned) <= most:
        yield turn
        return
    jobs: dict[int, list[Assigned]] = {}
    for change in turn.batch.assigned:
        jobs.setdefault(change.attempt_id.job_id, []).append(change)
    turn.batch.assigned = []
    part = turn
    for changes in jobs.values():
        part.batch.assigned += changes
        if len(part.batch.assigned) >= most:
            yield part
            part = Turn(Batch(turn.batch.at_ms, turn.batch.seen_seq), waited=turn.waited)
    if part.batch:
        yield part


def blamed_job(part: Turn, *, careful: bool) -> AbstractContextManager[None]:
    """If a part cannot be committed that assigns tasks of one job only, that job is to blame."""
    jobs = {change.attempt_id.job_id for change in part.batch.assigned} if careful else set()
    return about_job(jobs.pop()) if len(jobs) == 1 else nullcontext()


async def commit(store: Store, epoch: int, picture: Picture, turn: Turn) -> Receipt:
    """Raises DeposedError or StoreUnavailableError; then the picture no longer tells the truth."""
    receipt = await store.commit(epoch, turn.batch)
    for change in receipt.refused:
        if isinstance(change, Assigned):
            picture.release(change.attempt_id.task_id)
            task = turn.waited[change.attempt_id.task_id]
            picture.add_waiting(replace(task, eligible_ms=picture.now_ms + RETRY_MS))
    return receipt
