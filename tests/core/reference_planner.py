"""The rule of docs/scheduling.md as slow, plain code: one cycle, nothing clever."""

from dataclasses import replace

from tests.core.reference.backfill import moment_and_places, reserve
from tests.core.reference.order import (
    Unit,
    block,
    is_blocked,
    next_unit,
    order_of,
    place_in_queue,
    queue_of,
    units_of,
)
from tests.core.reference.place import start_now
from tests.core.reference.preempt import preempt
from tests.core.reference.quota import (
    allows,
    burst_has_room,
    is_like_one_refused,
    is_short,
    lacking,
    may_begin,
    may_burst,
    refuse,
)
from tests.core.reference.room import needs
from tests.core.reference.world import World, world_of
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Start
from tgpu.core.policy import Policy
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.domain.quota import Admission


def reference_plan(picture: Picture, policy: Policy) -> Plan:
    world = world_of(picture, policy)
    start_claims(world)
    units = units_of(picture)
    holders = {id(unit): place for unit in units if (place := place_among_holders(picture, unit)) is not None}
    tried: set[int] = set()
    for priority_class in PriorityClass:
        rank = TERMS[priority_class].rank
        mine = [unit for unit in units if unit.rank == rank]
        repairs = sorted((unit for unit in mine if unit.damaged), key=lambda unit: unit.head.task_id)
        first = sorted((unit for unit in mine if id(unit) in holders), key=lambda unit: holders[id(unit)])
        for unit in [*repairs, *(unit for unit in first if not unit.damaged)]:
            if allows(world, unit):
                attempt(world, unit, holder=id(unit) in holders)
                tried.add(id(unit))
        for order in policy.order_names:
            rest = [u for u in mine if id(u) not in tried and not u.damaged and order_of(u, policy) == order]
            tried |= serve(world, rest, burst=False)
    for priority_class in PriorityClass:
        if TERMS[priority_class].may_burst:
            rank = TERMS[priority_class].rank
            held = [u for u in units if u.rank == rank and u.held and id(u) not in tried and not u.damaged]
            held = [unit for unit in held if unit.eligible_ms <= world.now_ms and may_burst(world, unit)]
            for order in policy.order_names:
                serve(world, [unit for unit in held if order_of(unit, policy) == order], burst=True)
    return Plan(picture.version, tuple(world.starts), tuple(world.preempts), tuple(world.reservations))


def start_claims(world: World) -> None:
    """Whose last victim is gone starts where its claim is."""
    picture = world.picture
    for each in picture.preempts:
        takes = all(picture.places[claim.node_id].takes_tasks for claim in each.claims)
        if not takes or any(picture.live(victim) is not None for victim in each.victims):
            continue
        for claim in each.claims:
            task = picture.waiting[claim.task_id]
            devices = world.positions(claim.node_id, claim.devices)
            world.holders[claim.task_id] = world.new_holder(task, claim.node_id, devices)
            admission = Admission.NOW if task.held else Admission.CHARGED
            world.starts.append(Start(claim.task_id, claim.node_id, claim.devices, admission))


def place_among_holders(picture: Picture, unit: Unit) -> int | None:
    ids = {task.task_id for task in unit.tasks}
    for place, reservation in enumerate(picture.reservations):
        if ids & set(reservation.task_ids):
            return place
    return None


def slot_of(unit: Unit) -> tuple[int, str | None]:
    return unit.rank, unit.head.request.pool


def serve(world: World, units: list[Unit], *, burst: bool) -> set[int]:
    """Everybody of one class under one order; returns who was tried."""
    policy = world.policy
    left = sorted(units, key=lambda unit: place_in_queue(unit, policy, world.now_ms))
    stopped: set[str] = set()
    tried: set[int] = set()
    while True:
        left = [
            u for u in left if not is_blocked(world, u) and not (u.held and queue_of(u, policy) in stopped)
        ]
        if not left:
            return tried
        unit = next_unit(world, left)
        left.remove(unit)
        if is_short(world, unit) or (not burst and is_like_one_refused(world, unit)):
            continue
        if unit.held and not burst:
            if lacking(world, unit):
                refuse(world, unit)
                continue
        elif not may_begin(world, unit):
            continue
        if burst and not burst_has_room(world, unit):
            stopped.add(queue_of(unit, policy))
            continue
        attempt(world, unit, burst=burst)
        tried.add(id(unit))


def attempt(world: World, unit: Unit, *, burst: bool = False, holder: bool = False) -> None:
    """It starts; or it preempts; or it gets a reservation; or it waits, and all who are alike with it."""
    if unit.eligible_ms > world.now_ms:
        keep_place(world, unit, holder=holder)
        return
    trial = world.copy()
    has_room = start_now(trial, unit)
    if has_room and has_licences(world, unit):
        world.become(trial)
        write_down_starts(world, unit, burst=burst)
        return
    if not burst and has_licences(world, unit) and preempt(world, unit):
        return
    if not burst and (holder or is_one_left(world, unit)):
        found = None if has_room else moment_and_places(world, unit)
        if has_room:
            keep_licences(world, unit)
            world.kept_for += unit.tasks
        if found is not None:
            reserve(world, unit, found)
        if has_room or found is not None:
            world.slots_taken.append(slot_of(unit))
            return
    if not unit.damaged:
        block(world, unit)


def is_one_left(world: World, unit: Unit) -> bool:
    return world.slots_taken.count(slot_of(unit)) < world.policy.of(unit.head.request.pool).reserve


def keep_place(world: World, unit: Unit, *, holder: bool) -> None:
    """In its backoff: what it can have when that ends is kept for it, whoever else has a reservation."""
    found = moment_and_places(world, unit)
    if found is None:
        return
    if found[0] == unit.eligible_ms:
        reserve(world, unit, found)
        keep_licences(world, unit)
    elif holder or is_one_left(world, unit):
        reserve(world, unit, found)
        world.slots_taken.append(slot_of(unit))


def write_down_starts(world: World, unit: Unit, *, burst: bool) -> None:
    admission = Admission.CHARGED
    if unit.held:
        admission = Admission.BURST if burst else Admission.NOW
    for task in unit.tasks:
        holder = world.holders[task.task_id]
        if burst:
            world.holders[task.task_id] = replace(holder, burst=True)
        devices = world.indices(holder.node_id, holder.devices)
        world.starts.append(Start(task.task_id, holder.node_id, devices, admission))


def licences_needed(world: World, unit: Unit) -> dict[str, int]:
    return {
        name: sum(needs(task.request).get(name, 0) for task in unit.tasks)
        for name in world.policy.cluster_generic
    }


def has_licences(world: World, unit: Unit) -> bool:
    needed = licences_needed(world, unit)
    return all(need <= world.licences_free(name) for name, need in needed.items() if need)


def keep_licences(world: World, unit: Unit) -> None:
    """It lacks only licences: nobody behind it gets those that are free."""
    for name, need in licences_needed(world, unit).items():
        world.kept[name] = world.kept.get(name, 0) + max(0, min(need, world.licences_free(name)))
