"""Reservations: when and where would a unit start if everybody ended at the estimated end?"""

from tests.core.reference.order import Unit
from tests.core.reference.place import look_beside, minus, node_sets, opens_ms, place_all
from tests.core.reference.world import Extra, Promise, World
from tgpu.core.plan import Reservation
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief

Found = tuple[int, list[tuple[TaskId, str, tuple[int, ...]]]]


def moment_and_places(world: World, unit: Unit) -> Found | None:
    """When and where it could start first; what it was promised, unless that is earlier."""
    found = _earliest_of_task(world, unit) if unit.gang is None else _earliest_of_gang(world, unit)
    before = _promised(world, unit)
    if before is not None and (found is None or found[0] >= before.at_ms):
        found = _as_before(world, unit, before) or found
    return found


def reserve(world: World, unit: Unit, found: Found) -> None:
    at_ms, places = found
    world.kept_for += unit.tasks
    tasks = {task.task_id: task for task in unit.tasks}
    for task_id, node_id, devices in places:
        milli = world.new_holder(tasks[task_id], node_id, devices).gpu_milli
        world.promises.append(Promise(tasks[task_id], node_id, devices, milli, at_ms))
    for node_id in {node_id for _, node_id, _ in places}:
        renew_extra(world, node_id)
    named = tuple((node_id, world.indices(node_id, devices)) for _, node_id, devices in places)
    world.reservations.append(Reservation(tuple(task_id for task_id, _, _ in places), at_ms, named))


def _earliest_of_task(world: World, unit: Unit) -> Found | None:
    """On every node at every moment: the earliest, then the smaller name."""
    (task,) = unit.tasks
    found = []
    for node_id in world.picture.places:
        first_ms = max(opens_ms(world, unit, node_id), unit.eligible_ms)
        for at_ms in _moments(world, first_ms, node_id):
            seen = look_beside(at_ms)(world.later(at_ms), unit, task.request, node_id)
            if seen is not None:
                found.append((at_ms, node_id, seen[0]))
    if not found:
        return None
    at_ms, node_id, devices = min(found)
    return at_ms, [(task.task_id, node_id, devices)]


def _moments(world: World, first_ms: int, node_id: str | None = None) -> list[int]:
    """From the first on, the estimated ends there, or everywhere."""
    ends = {
        holder.end_ms
        for holder in world.holders.values()
        if holder.end_ms is not None and node_id in (None, holder.node_id) and holder.end_ms > first_ms
    }
    return sorted({first_ms} | ends)


def _earliest_of_gang(world: World, unit: Unit) -> Found | None:
    """Halving finds the first only if who finds room once finds it ever after."""
    first_ms = max(world.now_ms, unit.eligible_ms)
    closed = {window.until_ms for window in world.picture.windows if window.until_ms > first_ms}
    moments, best = sorted({*_moments(world, first_ms), *closed}), None
    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        found = _at_once(world, unit, moments[middle])
        if found is None:
            low = middle + 1
        else:
            high, best = middle, found
    return best


def _at_once(world: World, unit: Unit, at_ms: int) -> Found | None:
    for names in node_sets(world, unit):
        trial = world.later(at_ms)
        if place_all(trial, unit, names, look_beside(at_ms)):
            held = [trial.holders[task.task_id] for task in unit.tasks]
            return at_ms, [(holder.task.task_id, holder.node_id, holder.devices) for holder in held]
    return None


def _promised(world: World, unit: Unit) -> Reservation | None:
    for reservation in world.picture.reservations:
        if unit.head.task_id in reservation.task_ids:
            return reservation
    return None


def _as_before(world: World, unit: Unit, before: Reservation) -> Found | None:
    """The place and moment it was promised, if it can still have them."""
    if before.at_ms < world.now_ms or before.task_ids != tuple(task.task_id for task in unit.tasks):
        return None
    trial = world.later(before.at_ms)
    places = []
    for task, (node_id, indices) in zip(unit.tasks, before.places, strict=True):
        devices = world.positions(node_id, indices)
        if not _has_just_this(trial, unit, task, (node_id, devices), before.at_ms):
            return None
        trial.holders[task.task_id] = world.new_holder(task, node_id, devices)
        places.append((task.task_id, node_id, devices))
    return before.at_ms, places


def _has_just_this(
    trial: World, unit: Unit, task: TaskBrief, place: tuple[str, tuple[int, ...]], at_ms: int
) -> bool:
    """Whether these very devices, and all else that it needs, are left beside what is reserved."""
    node_id, devices = place
    if look_beside(at_ms)(trial, unit, task.request, node_id) is None:
        return False
    room = trial.room(node_id)
    for promise in trial.promises:
        if promise.node_id == node_id:
            room = minus(room, promise.task.request, promise.devices, promise.gpu_milli)
    milli = trial.new_holder(task, node_id, devices).gpu_milli
    return all(room.gpu[position] >= milli for position in devices)


def renew_extra(world: World, node_id: str) -> None:
    """What is free at the first reserved moment, less all that is reserved there."""
    promises = [promise for promise in world.promises if promise.node_id == node_id]
    if not promises:
        return
    first_ms = min(promise.at_ms for promise in promises)
    room = world.later(first_ms).room(node_id)
    for promise in promises:
        room = minus(room, promise.task.request, promise.devices, promise.gpu_milli)
    alone = any(promise.task.request.exclusive for promise in promises)
    world.extras[node_id] = Extra(first_ms, room, alone)
