"""Whom to stop: every set of units is looked at."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from tests.core.reference.backfill import renew_extra
from tests.core.reference.order import Unit
from tests.core.reference.place import best_place, is_full_of, look_beside, node_sets
from tests.core.reference.world import Holder, World
from tgpu.core.plan import Claim, Preempt
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.priority import BURST_RANK, TERMS

Victims = tuple[Holder, ...]


def preempt(world: World, unit: Unit) -> bool:
    if not world.policy.preemption or unit.gentle:
        return False
    for names in node_sets(world, unit):
        trial, victims = world.copy(), list[Holder]()
        if all(_make_room(trial, unit, task, names, victims) for task in unit.tasks):
            _write_down(world, unit, trial, victims)
            return True
    return False


def _make_room(trial: World, unit: Unit, task: TaskBrief, names: list[str], victims: list[Holder]) -> bool:
    """Where it fits (of a gang: also on what earlier victims leave), else with its own cheapest victims."""
    found = best_place(trial, unit, task, names, look_beside(trial.now_ms)) if unit.gang else None
    if found is None:
        cheapest = _cheapest(trial, unit, task, names)
        if cheapest is None:
            return False
        stopped, node_id, devices = cheapest
        victims += stopped
        for holder in stopped:
            del trial.holders[holder.task.task_id]
        for name in {holder.node_id for holder in stopped}:
            renew_extra(trial, name)
        found = node_id, devices
    trial.holders[task.task_id] = trial.new_holder(task, *found, end_ms=None)
    renew_extra(trial, found[0])
    return True


def _cheapest(
    trial: World, unit: Unit, task: TaskBrief, names: list[str]
) -> tuple[Victims, str, tuple[int, ...]] | None:
    """Of those on the burst alone, if that is enough; else of all."""
    on_burst = _cheapest_of(trial, unit, task, names, BURST_RANK)
    return on_burst or _cheapest_of(trial, unit, task, names, 0)


def _cheapest_of(
    trial: World, unit: Unit, task: TaskBrief, names: list[str], least_rank: int
) -> tuple[Victims, str, tuple[int, ...]] | None:
    """The fewest tasks, then the least lost, then the smaller node, then the smaller attempts."""
    found = []
    for node_id in names:
        if is_full_of(trial, unit, node_id):
            continue
        possible = _stoppable(trial, unit, node_id)
        for stopped in _sets([each for each in possible if min(one.rank for one in each) >= least_rank]):
            rest = trial.copy()
            for holder in stopped:
                del rest.holders[holder.task.task_id]
            seen = look_beside(rest.now_ms)(rest, unit, task.request, node_id)
            if seen is not None:
                lost = sum(_lost(trial, holder) for holder in stopped)
                key = (len(stopped), lost, node_id, sorted(map(_attempt, stopped)))
                found.append((key, stopped, node_id, seen[0]))
    if not found:
        return None
    _, stopped, node_id, devices = min(found, key=lambda each: each[0])
    return stopped, node_id, devices


def _sets(units: list[Victims]) -> Iterator[Victims]:
    for count in range(1, len(units) + 1):
        for chosen in combinations(units, count):
            yield tuple(holder for victims in chosen for holder in victims)


def _stoppable(world: World, unit: Unit, node_id: str) -> list[Victims]:
    """Tasks and whole gangs that have somebody on the node, and of which everyone may be stopped."""
    by_unit: dict[object, list[Holder]] = {}
    for task_id, holder in sorted(world.holders.items()):
        key = task_id.job_id if holder.task.gang is not None else task_id
        by_unit.setdefault(key, []).append(holder)
    return [
        tuple(holders)
        for holders in by_unit.values()
        if any(holder.node_id == node_id for holder in holders)
        and all(_may_be_stopped(world, unit, holder) for holder in holders)
    ]


def _may_be_stopped(world: World, unit: Unit, holder: Holder) -> bool:
    placed = holder.placed
    if placed is None or holder.stopping or holder.rank <= unit.rank:
        return False
    min_run_ms = 1000 * world.policy.min_run_s
    return min_run_ms == 0 or (
        placed.state is AttemptState.RUNNING and world.now_ms - placed.since_ms >= min_run_ms
    )


def _lost(world: World, holder: Holder) -> int:
    saved_ms = holder.task.checkpoint_ms
    if saved_ms:
        assert holder.placed is not None, "only attempts are stopped"
        return world.now_ms - max(saved_ms, holder.placed.since_ms)
    assert holder.end_ms is not None, "attempts have an estimated end"
    return holder.end_ms - world.now_ms


def _attempt(holder: Holder) -> AttemptId:
    assert holder.placed is not None, "only attempts are stopped"
    return holder.placed.attempt_id


def _write_down(world: World, unit: Unit, trial: World, victims: list[Holder]) -> None:
    """The victims hold their room until they are gone; the claims have it already."""
    touched = set()
    for holder in victims:
        grace_s = holder.task.grace_s
        if grace_s is None:
            grace_s = TERMS[holder.task.priority_class].grace_s
        assert holder.end_ms is not None, "attempts have an estimated end"
        gone_ms = min(holder.end_ms, max(world.now_ms + 1000 * grace_s, world.now_ms + 1))
        stopped = replace(holder, end_ms=gone_ms, stopping=True, stopped_here=True)
        world.holders[holder.task.task_id] = stopped
        touched.add(holder.node_id)
    claims = []
    for task in unit.tasks:
        holder = world.holders[task.task_id] = trial.holders[task.task_id]
        indices = world.indices(holder.node_id, holder.devices)
        claims.append(Claim(task.task_id, holder.node_id, indices))
        touched.add(holder.node_id)
    for node_id in touched:
        renew_extra(world, node_id)
    world.preempts.append(Preempt(tuple(sorted(map(_attempt, victims))), tuple(claims)))
