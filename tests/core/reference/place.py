"""Where would a unit start: now, or at a moment to come?"""

from collections.abc import Callable, Iterable, Iterator

from tests.core.reference.order import Unit, duration_of
from tests.core.reference.room import Room, devices_in, needs, score
from tests.core.reference.world import Extra, World
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Node
from tgpu.domain.tenant import lineage

Look = Callable[[World, Unit, Request, str], "tuple[tuple[int, ...], Room] | None"]
"""The devices (by position) that a request gets on a node, and the room that is scored; None: no room."""


def suits(world: World, request: Request, node: Node) -> bool:
    """A rule from outside that fails is against it."""
    if not world.picture.places[node.node_id].takes_tasks:
        return False
    if any(rule(request, node) is not None for rule in world.policy.rules.values()):
        return False
    for rule in world.policy.outside_rules.values():
        try:
            if rule(request, node) is not None:
                return False
        except Exception:  # noqa: BLE001  whatever a plug-in raises is its own
            return False
    return True


def opens_ms(world: World, unit: Unit, node_id: str) -> int:
    """From when on the windows let the unit start there: now, or when the last that forbids it is over."""
    end_ms = world.now_ms + duration_of(world, unit)
    return max(
        [
            window.until_ms
            for window in world.picture.windows
            if node_id in window.node_ids
            and window.until_ms > world.now_ms
            and end_ms > window.from_ms
            and window.tenant_id not in lineage(unit.head.tenant_id)
        ],
        default=world.now_ms,
    )


def look_now(world: World, unit: Unit, request: Request, node_id: str) -> tuple[tuple[int, ...], Room] | None:
    node, room = world.node(node_id), world.room(node_id)
    if not suits(world, request, node) or opens_ms(world, unit, node_id) > world.now_ms:
        return None
    extra = stays_beside(world, unit, node_id)
    if extra is None:
        devices = devices_in(request, node, room)
    elif extra.alone or request.exclusive:
        return None
    else:
        both = least(room, extra.room)
        devices = devices_in(request, node, both)
    return None if devices is None else (devices, room)


def stays_beside(world: World, unit: Unit, node_id: str) -> Extra | None:
    """The extra of a node with reservations, if the unit would still run at the first of them."""
    extra = world.extras.get(node_id)
    if extra is None or world.now_ms + duration_of(world, unit) <= extra.shadow_ms:
        return None
    return extra


def least(a: Room, b: Room) -> Room:
    free = {name: min(amount, b.free.get(name, 0)) for name, amount in a.free.items()}
    return Room(free, tuple(map(min, a.gpu, b.gpu)), a.tasks, a.alone)


def minus(room: Room, request: Request, devices: tuple[int, ...], milli: int) -> Room:
    needed = needs(request)
    free = {name: amount - needed.get(name, 0) for name, amount in room.free.items()}
    gpu = tuple(left - milli * (at in devices) for at, left in enumerate(room.gpu))
    return Room(free, gpu, room.tasks, room.alone)


def look_beside(at_ms: int) -> Look:
    """Beside all that is reserved, whenever that is, in the world as it is at this moment."""

    def look(world: World, unit: Unit, request: Request, node_id: str) -> tuple[tuple[int, ...], Room] | None:
        node = world.node(node_id)
        if not suits(world, request, node) or opens_ms(world, unit, node_id) > at_ms:
            return None
        promises = [promise for promise in world.promises if promise.node_id == node_id]
        if any(request.exclusive or promise.task.request.exclusive for promise in promises):
            return None
        room = world.room(node_id)
        for promise in promises:
            room = minus(room, promise.task.request, promise.devices, promise.gpu_milli)
        devices = devices_in(request, node, room)
        return None if devices is None else (devices, room)

    return look


def node_sets(world: World, unit: Unit) -> Iterator[list[str]]:
    """All nodes; with a topology, those of one value after the other."""
    names = sorted(world.picture.places)
    if unit.gang is None or unit.gang.topology is None:
        yield names
        return
    label = unit.gang.topology
    value_of = {name: world.node(name).labels.get(label) for name in names}
    if unit.damaged:
        live = {value_of[world.holders[task_id].node_id] for task_id in live_tasks(world, unit)}
        if len(live) == 1 and None not in live:
            yield [name for name in names if value_of[name] in live]
        return
    found = []
    for value in {value for value in value_of.values() if value is not None}:
        there = [name for name in names if value_of[name] == value]
        takes = [name for name in there if world.picture.places[name].takes_tasks]
        found.append((sum(sum(world.room(name).gpu) for name in takes), value, there))
    for _, _, there in sorted(found):
        yield there


def live_tasks(world: World, unit: Unit) -> Iterable[TaskId]:
    return world.picture.gangs.of(unit.head.task_id.job_id).running


def best_place(
    world: World, unit: Unit, task: TaskBrief, names: list[str], look: Look
) -> tuple[str, tuple[int, ...]] | None:
    """The highest score; equal: the smaller name."""
    found = []
    for name in names:
        if is_full_of(world, unit, name):
            continue
        seen = look(world, unit, task.request, name)
        if seen is not None:
            devices, room = seen
            found.append((-score(task.request, world.node(name), room, world.policy), name, devices))
    if not found:
        return None
    _, name, devices = min(found)
    return name, devices


def is_full_of(world: World, unit: Unit, node_id: str) -> bool:
    """Has the node as many tasks of the gang as it may have?"""
    if unit.gang is None or unit.gang.per_node is None:
        return False
    live = [world.picture.placed[task_id].node_id for task_id in live_tasks(world, unit)]
    new = [world.holders[task.task_id].node_id for task in unit.tasks if task.task_id in world.holders]
    return (live + new).count(node_id) >= unit.gang.per_node


def place_all(world: World, unit: Unit, names: list[str], look: Look) -> bool:
    """All tasks or none; `world` is a copy to try on, and holds them afterwards."""
    for task in unit.tasks:
        found = best_place(world, unit, task, names, look)
        if found is None:
            return False
        hold(world, unit, task, *found)
    return True


def hold(world: World, unit: Unit, task: TaskBrief, node_id: str, devices: tuple[int, ...]) -> None:
    """Who starts beside reservations, and stays, takes from their extra."""
    holder = world.new_holder(task, node_id, devices)
    extra = stays_beside(world, unit, node_id)
    if extra is not None:
        left = minus(extra.room, task.request, devices, holder.gpu_milli)
        world.extras[node_id] = Extra(extra.shadow_ms, left, extra.alone)
    world.holders[task.task_id] = holder


def start_now(world: World, unit: Unit) -> bool:
    for names in node_sets(world, unit):
        trial = world.copy()
        if place_all(trial, unit, names, look_now):
            world.become(trial)
            return True
    return False
