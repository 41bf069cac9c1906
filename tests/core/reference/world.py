"""The picture on paper: who holds what; everything else is summed up from that, every time."""

from dataclasses import dataclass, field, replace

from tests.core.reference.room import WHOLE, Room, capacity, needs, part_of
from tgpu.core.picture import Picture, Placed
from tgpu.core.plan import Preempt, Reservation, Start
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.node import Node
from tgpu.domain.priority import BURST_RANK, TERMS
from tgpu.domain.tenant import lineage

PLENTY = 2**62


@dataclass(frozen=True)
class Holder:
    """One who holds room: an attempt, a start of this plan, or a claim."""

    task: TaskBrief
    node_id: str
    devices: tuple[int, ...]
    """By position."""
    gpu_milli: int
    """Of each of them."""
    gpus_charged: int
    """Thousandths, in all."""
    end_ms: int | None
    """None: a claim, of which nobody knows when it ends."""
    placed: Placed | None = None
    stopping: bool = False
    stopped_here: bool = False
    """By this plan: it holds its room still, but its tenant is no longer charged."""
    burst: bool = False

    @property
    def rank(self) -> int:
        return BURST_RANK if self.burst else TERMS[self.task.priority_class].rank


@dataclass(frozen=True)
class Promise:
    """One task's part of a reservation."""

    task: TaskBrief
    node_id: str
    devices: tuple[int, ...]
    gpu_milli: int
    at_ms: int


@dataclass(frozen=True)
class Extra:
    """On a node with reservations: who stays beyond `shadow_ms` must find room in here, too."""

    shadow_ms: int
    room: Room
    alone: bool


@dataclass
class World:
    picture: Picture
    policy: Policy
    holders: dict[TaskId, Holder] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)
    extras: dict[str, Extra] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    """Licences kept for somebody who lacks only those."""
    kept_for: list[TaskBrief] = field(default_factory=list)
    """Who has a reservation, or keeps licences: its quotas count it as if it had started."""
    short: dict[str, int] = field(default_factory=dict)
    """By tenant: who takes so much of the GPU-hours, or more, does not begin."""
    line: list[tuple[tuple[TaskBrief, ...], tuple[str, ...]]] = field(default_factory=list)
    """The tasks of every held unit that its quotas refused, and the tenants in whose quotas what it asks for
    is kept for it from everybody; from its own tenant it is kept in all."""
    shut: set[tuple[str, object]] = field(default_factory=set)
    """Tenant and kind of those who were refused for more than how long they run."""
    blocked: dict[object, int] = field(default_factory=dict)
    """The shortest duration of each kind that had no room."""
    slots_taken: list[tuple[int, str | None]] = field(default_factory=list)
    """Class and pool of everybody who has been given a reservation."""
    starts: list[Start] = field(default_factory=list)
    preempts: list[Preempt] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)

    @property
    def now_ms(self) -> int:
        return self.picture.now_ms

    def node(self, node_id: str) -> Node:
        return self.picture.places[node_id].node

    def copy(self) -> "World":
        """To try something: only what trying changes is copied."""
        return replace(self, holders=dict(self.holders), extras=dict(self.extras))

    def become(self, other: "World") -> None:
        self.holders, self.extras = other.holders, other.extras

    def later(self, at_ms: int) -> "World":
        """A copy in which everybody is gone who has ended by then."""
        left = {
            task_id: holder
            for task_id, holder in self.holders.items()
            if holder.end_ms is None or holder.end_ms > at_ms
        }
        return replace(self, holders=left, extras={})

    def room(self, node_id: str) -> Room:
        there = [holder for holder in self.holders.values() if holder.node_id == node_id]
        node = self.node(node_id)
        free, gpu = capacity(node, self.policy), [WHOLE] * len(node.capacity.devices)
        for name in self.policy.cluster_generic:
            free[name] = PLENTY  # licences are looked at apart
        for holder in there:
            for name, need in needs(holder.task.request).items():
                if name not in self.policy.cluster_generic:
                    free[name] = free.get(name, 0) - need
            for position in holder.devices:
                gpu[position] -= holder.gpu_milli
        alone = any(holder.task.request.exclusive for holder in there)
        return Room(free, tuple(gpu), len(there), alone)

    def licences_free(self, name: str) -> int:
        held = sum(dict(holder.task.request.generic).get(name, 0) for holder in self.holders.values())
        return self.policy.cluster_generic[name] - held - self.kept.get(name, 0)

    def duration_ms(self, task: TaskBrief) -> int:
        limit_s = task.time_limit_s
        return 1000 * (self.policy.of(task.request.pool).default_limit_s if limit_s is None else limit_s)

    def new_holder(self, task: TaskBrief, node_id: str, devices: tuple[int, ...], **more: object) -> Holder:
        """`devices` by position."""
        node = self.node(node_id)
        indices = tuple(node.capacity.devices[position].index for position in devices)
        milli = taken_of_each(node, indices, task.request)
        end_ms = self.now_ms + max(1, self.duration_ms(task))
        holder = Holder(task, node_id, devices, milli, milli * len(devices), end_ms)
        return replace(holder, **more)  # type: ignore[arg-type]

    def indices(self, node_id: str, positions: tuple[int, ...]) -> tuple[int, ...]:
        devices = self.node(node_id).capacity.devices
        return tuple(devices[position].index for position in positions)

    def positions(self, node_id: str, indices: tuple[int, ...]) -> tuple[int, ...]:
        devices = self.node(node_id).capacity.devices
        return tuple(position for position, device in enumerate(devices) if device.index in indices)


def world_of(picture: Picture, policy: Policy) -> World:
    world = World(picture, policy)
    for placed in picture.placed.values():
        world.holders[placed.task.task_id] = _held(world, placed)
    for claim in picture.claims.values():
        task = picture.waiting[claim.task_id]
        devices = world.positions(claim.node_id, claim.devices)
        world.holders[claim.task_id] = world.new_holder(task, claim.node_id, devices, end_ms=None)
    return world


def _held(world: World, placed: Placed) -> Holder:
    node = world.node(placed.node_id)
    milli = taken_of_each(node, placed.devices, placed.task.request)
    return Holder(
        placed.task,
        placed.node_id,
        world.positions(placed.node_id, placed.devices),
        milli,
        milli * len(placed.devices),
        estimated_end_ms(world, placed),
        placed,
        stopping=placed.state is AttemptState.STOPPING,
        burst=placed.task.burst,
    )


def taken_of_each(node: Node, indices: tuple[int, ...], request: Request) -> int:
    """Thousandths of each device; of one that is no longer there by memory: all of it."""
    if request.gpu_milli or not indices:
        return min(request.gpu_milli, WHOLE)
    devices = [device for device in node.capacity.devices if device.index == indices[0]]
    healthy = [replace(device, healthy=True, avoided=False) for device in devices if device.memory_mib]
    return part_of(healthy[0], request) if healthy else WHOLE


def estimated_end_ms(world: World, placed: Placed) -> int:
    duration = max(1, world.duration_ms(placed.task))
    while placed.since_ms + duration <= world.now_ms:
        duration *= 2
    end_ms = placed.since_ms + duration
    if placed.stop_by_ms is None:
        return end_ms
    return min(end_ms, max(placed.stop_by_ms, world.now_ms + 1))


def charged(world: World, tenant_id: str, *, own: bool) -> dict[str, int]:
    """What a tenant uses: its own tasks, or with everybody below."""
    total: dict[str, int] = {}
    for holder in world.holders.values():
        of = holder.task.tenant_id
        if holder.stopped_here or (of != tenant_id if own else tenant_id not in lineage(of)):
            continue
        for name, need in needs(holder.task.request).items():
            total[name] = total.get(name, 0) + need
        total["gpu"] = total.get("gpu", 0) + holder.gpus_charged
    return total
