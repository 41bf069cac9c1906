"""Whose turn is it?"""

from dataclasses import dataclass, replace

from tests.core.reference.room import WHOLE, capacity
from tests.core.reference.world import World, charged
from tgpu.core.picture import Picture
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, TaskBrief
from tgpu.domain.lifecycle import AttemptState, NodeState, Status
from tgpu.domain.priority import TERMS
from tgpu.domain.tenant import Tenant, lineage, parent_of

FAIR = ("drf", "fair-tree")


@dataclass(frozen=True)
class Unit:
    """What starts whole: one task, or all waiting tasks of a gang, hardest first."""

    tasks: tuple[TaskBrief, ...]
    gang: Gang | None
    damaged: bool

    @property
    def head(self) -> TaskBrief:
        """Who stands in the queue for it."""
        return min(self.tasks, key=lambda task: task.task_id)

    @property
    def rank(self) -> int:
        return TERMS[self.head.priority_class].rank

    @property
    def held(self) -> bool:
        return self.head.held

    @property
    def gentle(self) -> bool:
        """Was preempted, and so does not preempt."""
        return any(task.status is Status.PREEMPTED for task in self.tasks)

    @property
    def eligible_ms(self) -> int:
        return max(task.eligible_ms for task in self.tasks)


def units_of(picture: Picture) -> list[Unit]:
    """Everybody who may be tried now; a gang that is being stopped is not, until all of it is gone."""
    ready = {task_id: task for task_id, task in picture.waiting.items() if task_id not in picture.claims}
    found = [Unit((task,), None, damaged=False) for task in ready.values() if task.gang is None]
    for job_id in {task_id.job_id for task_id, task in ready.items() if task.gang is not None}:
        state = picture.gangs.of(job_id)
        leaving = any(picture.placed[task_id].state is AttemptState.STOPPING for task_id in state.running)
        if state.complete and not leaving and all(task_id in ready for task_id in state.waiting):
            members = sorted((ready[task_id] for task_id in state.waiting), key=_hardest_first)
            found.append(Unit(tuple(members), state.gang, damaged=bool(state.running)))
    return [unit for unit in found if not (unit.damaged and unit.eligible_ms > picture.now_ms)]


def _hardest_first(task: TaskBrief) -> tuple[bool, int, int, int, TaskId]:
    request = task.request
    certain = bool(request.node_id or request.node_selector or request.node_rules or request.gpu_type)
    return (not certain, -request.gpu_milli, -request.cpu_milli, -request.memory_mib, task.task_id)


def duration_of(world: World, unit: Unit) -> int:
    return max(world.duration_ms(task) for task in unit.tasks)


def kind_of(world: World, unit: Unit) -> object:
    """Whose task it is makes no difference where every node serves everybody."""
    by_user = any(place.node.serves != "*" for place in world.picture.places.values())
    kinds = [
        (task.request if by_user else replace(task.request, user=None), task.status is Status.PREEMPTED)
        for task in unit.tasks
    ]
    if unit.gang is None:
        return kinds[0]
    return frozenset((kind, kinds.count(kind)) for kind in kinds), unit.gang


def is_blocked(world: World, unit: Unit) -> bool:
    shortest = world.blocked.get(kind_of(world, unit))
    return shortest is not None and duration_of(world, unit) >= shortest


def block(world: World, unit: Unit) -> None:
    kind, duration = kind_of(world, unit), duration_of(world, unit)
    world.blocked[kind] = min(duration, world.blocked.get(kind, duration))


def order_of(unit: Unit, policy: Policy) -> str:
    return policy.of(unit.head.request.pool).order


def place_in_queue(unit: Unit, policy: Policy, now_ms: int) -> tuple[int, ...]:
    head, order = unit.head, order_of(unit, policy)
    if order in policy.outside_orders:
        return (*policy.outside_orders[order](head, now_ms), *head.task_id)
    waited_s = max(0, now_ms - head.submitted_ms) // 1000
    effective = head.priority + min(policy.aging_most, waited_s // policy.aging_step_s)
    return (0 if order == "fifo" else -effective, head.submitted_ms, *head.task_id)


def queue_of(unit: Unit, policy: Policy) -> str:
    return unit.head.tenant_id if order_of(unit, policy) in FAIR else ""


def next_unit(world: World, units: list[Unit]) -> Unit:
    """Of units under one order, in the order of the queue."""
    order = order_of(units[0], world.policy)
    if order not in FAIR:
        return units[0]
    whose = tenant_whose_turn_it_is(world, {unit.head.tenant_id for unit in units}, order)
    return next(unit for unit in units if unit.head.tenant_id == whose)


def tenant_whose_turn_it_is(world: World, waiting: set[str], order: str) -> str:
    here: str | None = None
    while True:
        options = [("", here)] if here in waiting else []
        options += [
            (name, name)
            for name in world.picture.tenants
            if parent_of(name) == here and any(name in lineage(tenant) for tenant in waiting)
        ]
        chosen, here = min(options, key=lambda option: (_value(world, *option, order), option[0]))
        if chosen == "" or not any(parent_of(name) == here for name in world.picture.tenants):
            assert here is not None, "somebody waits below the root"
            return here


def _value(world: World, label: str, name: str, order: str) -> float:
    if order == "fair-tree":
        return 0.0  # past use is no plain fact of a picture: compare only where there is none
    return weighted_share(world, name, own=label == "")


def weighted_share(world: World, name: str, *, own: bool = False) -> float:
    whole, largest = the_whole(world), 0.0
    for resource, amount in charged(world, name, own=own).items():
        if whole.get(resource, 0) > 0:
            largest = max(largest, amount / whole[resource])
    tenant = world.picture.tenants.get(name, Tenant(name))
    return largest if own else largest / float(tenant.weight)


def the_whole(world: World) -> dict[str, int]:
    total: dict[str, int] = {}
    for place in world.picture.places.values():
        if place.node.state is not NodeState.OFFLINE:
            healthy = sum(device.healthy for device in place.node.capacity.devices)
            for name, amount in (capacity(place.node, world.policy) | {"gpu": WHOLE * healthy}).items():
                total[name] = total.get(name, 0) + amount
    return total | dict(world.policy.cluster_generic)
