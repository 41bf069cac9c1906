"""Decisions, checked again and committed in one fenced transaction; what no longer holds is handed back."""

from dataclasses import replace

from tgpu.control.turn import Turn
from tgpu.core.invariants import violations
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Preempt
from tgpu.domain.lifecycle import Cause, Status
from tgpu.store.port import Assigned, Receipt, StopOrdered, Store


class BrokenPromiseError(Exception):
    """A plan that would give out what is not there: a bug, stopped before it is committed."""


def assume(picture: Picture, made: Plan, turn: Turn) -> None:
    """The picture takes the plan as done, so that the next one does not give the same room away twice."""
    if picture.claims:
        picture.fulfil({start.task_id for start in made.starts})
    touched: dict[str, None] = {}
    for start in made.starts:
        task = picture.remove_waiting(start.task_id)
        attempt_id = start.task_id.attempt(task.attempts + 1)
        picture.place(task, attempt_id, start.node_id, start.devices)
        turn.batch.assigned.append(Assigned(attempt_id, start.node_id, start.devices))
        touched[start.node_id] = None
    for preempt in made.preempts:
        _make_way(picture, preempt, turn)
    picture.settle(made)
    broken = violations(picture, touched)
    if broken:
        raise BrokenPromiseError("; ".join(broken))


def _make_way(picture: Picture, preempt: Preempt, turn: Turn) -> None:
    """Those who are stopped are told for whom: their users will ask."""
    picture.preempt(preempt)
    by = f"job {preempt.claims[0].task_id.job_id}"
    for victim in preempt.victims:
        placed = picture.live(victim)
        assert placed is not None, "a plan stops only who is there"
        picture.stopping(placed, Cause.PREEMPTED)
        turn.batch.stop_ordered.append(StopOrdered(victim, Cause.PREEMPTED, by))


async def commit(store: Store, epoch: int, picture: Picture, turn: Turn) -> Receipt:
    """Raises DeposedError or StoreUnavailableError; then the picture no longer tells the truth."""
    receipt = await store.commit(epoch, turn.batch)
    for change in receipt.refused:
        if isinstance(change, Assigned):
            placed = picture.release(change.attempt_id.task_id)
            attempts = change.attempt_id.number - 1
            picture.add_waiting(replace(placed.task, status=Status.PENDING, attempts=attempts))
    return receipt
