"""All columns together: what a change of the picture means for each of them."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tgpu.core.columns.attempt_columns import AttemptColumns
from tgpu.core.columns.dimensions import Dimensions, dimensions_of
from tgpu.core.columns.kind_columns import KindColumns
from tgpu.core.columns.mix import Mix
from tgpu.core.columns.node_columns import NodeColumns
from tgpu.core.columns.own_copy import own_copy
from tgpu.core.columns.quota_columns import QuotaColumns
from tgpu.core.columns.tenant_columns import TenantColumns
from tgpu.core.columns.verdict import Verdict
from tgpu.core.columns.waiting_columns import WaitingColumns
from tgpu.core.gang_book import GangState
from tgpu.core.gpu_hours import GpuHours
from tgpu.core.kernel.shapes import WHOLE, Ints, Tree
from tgpu.core.placed import Placed
from tgpu.core.plan import Claim, Fault
from tgpu.core.policy import Left, Policy
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Status
from tgpu.domain.node import Node
from tgpu.domain.priority import BURST_RANK, TERMS
from tgpu.domain.tenant import Tenant

if TYPE_CHECKING:
    from tgpu.core.holdings import Holding


class Held(NamedTuple):
    """What one task, or one claim, has been given."""

    node_id: str
    kind: int
    indices: tuple[int, ...]
    milli: int
    """Thousandths of each of these devices."""
    tenant: int
    amounts: Ints
    """As its tenant is charged; others who take as much share it."""
    slot: int
    """Of its attempt; -1 for whatever is none of a task that is placed."""


class Table:
    def __init__(self, policy: Policy, hours: GpuHours) -> None:
        self._policy = policy
        self._hours = hours
        self._held: dict[TaskId, Held] = {}
        self._claimed: dict[TaskId, Held] = {}
        self.holdings: dict[AttemptId, Holding] = {}
        """Those whose tasks have left them behind; `_kept` is what they have been given."""
        self._kept: dict[AttemptId, Held] = {}
        self.lay_out((), ())

    def lay_out(self, nodes: Sequence[Node], requests: Sequence[Request]) -> None:
        """Empty columns, with a place for all that these need."""
        capacities = [node.capacity for node in nodes]
        self.dimensions: Dimensions = dimensions_of(capacities, requests, self._policy.cluster_generic)
        self.nodes = NodeColumns(self.dimensions, self._policy)
        self.quotas = QuotaColumns()
        self.kinds = KindColumns(self.dimensions, self.quotas, self.nodes, self._policy)
        from_outside = bool(self._policy.outside_rules) or self._policy.scored_outside
        self.kinds.by_user = from_outside or any(node.serves != "*" for node in nodes)
        self.attempts = AttemptColumns()
        remembers = "fair-tree" in self._policy.order_names
        self.tenants = TenantColumns(self.dimensions, self._policy.half_life_s, remembers=remembers)
        self.waiting = WaitingColumns(self._policy)
        self._charges: dict[tuple[int, int], Ints] = {}
        """By kind and thousandths of GPUs."""
        self.mix = Mix()
        self.verdict = Verdict()
        whole = [self._policy.cluster_generic[name] for name in self.dimensions.cluster]
        self.cluster_free: Ints = np.array(whole, dtype=np.int64)
        self.cluster_total = self.cluster_free.copy()

    def trial_copy(self, hours: GpuHours) -> "Table":
        """A table to which waiting tasks can be added; see `trial_state`."""
        nodes, quotas = own_copy(self.nodes), own_copy(self.quotas)
        return own_copy(
            self,
            _hours=hours,
            nodes=nodes,
            quotas=quotas,
            kinds=own_copy(self.kinds, _quotas=quotas, _nodes=nodes, _arrays=None),
            tenants=own_copy(self.tenants),
            waiting=self.waiting.trial_copy(),
            mix=own_copy(self.mix),
            verdict=own_copy(self.verdict),
        )

    # Nodes

    def can_hold_node(self, node: Node) -> bool:
        return self.nodes.fits_in(node) and (node.serves == "*" or self.kinds.by_user)

    def set_node(self, node: Node, reachable: bool) -> None:
        if not self.nodes.known(node.node_id):
            self.attempts.row_inserted(self.nodes.insert(node))
            self.kinds.pin()
        self.nodes.describe(self.nodes.row(node.node_id), node, reachable)
        for held in self._kept.values():
            if held.node_id == node.node_id:
                self._move(held, -1)
        self.verdict.freed.add(node.node_id)

    def set_nodes(self, nodes: Sequence[tuple[Node, bool]]) -> None:
        """All nodes of a table that has none, each with whether it is reachable."""
        self.nodes.insert_all([node for node, _ in nodes])
        self.kinds.pin()
        for node, reachable in nodes:
            self.set_node(node, reachable)

    def remove_node(self, node_id: str) -> None:
        for holding in [holding for holding in self.holdings.values() if holding.node_id == node_id]:
            self.let_go(holding.attempt_id)
        row = self.nodes.row(node_id)
        self.nodes.remove(row)
        self.attempts.row_removed(row)
        self.kinds.pin()
        self.verdict.freed.discard(node_id)

    def set_state(self, node: Node, reachable: bool) -> None:
        self.nodes.set_state(self.nodes.row(node.node_id), node, reachable)
        self.verdict.freed.add(node.node_id)

    def left(self, node: Node) -> Left:
        row = self.nodes.row(node.node_id)
        cpu, memory, disk = (int(amount) for amount in self.nodes.free[row, :3])
        gpu_free = self.nodes.gpu_free[row, : len(node.capacity.devices)].tolist()
        return Left(cpu, memory, disk, tuple(gpu_free))

    # Tenants

    def set_tenant(self, tenant: Tenant) -> None:
        self.tenants.set(tenant)
        if self.quotas.set(tenant):
            self.kinds.ask_quotas()

    def tree(self, now_ms: int) -> Tree:
        """Its amounts are copies: a plan is tried on them."""
        total = np.concatenate([self.nodes.total(), self.cluster_total])
        shares = self.tenants.shares(total, now_ms)
        asked = self.waiting.any_held  # nobody else asks what is charged
        limits = self.quotas.arrays(self.tenants, self.kinds.quota, self._hours, asked=asked)
        promised = np.zeros((self.tenants.rows, self.quotas.width + 2), dtype=np.int64)
        return Tree(*shares, *limits, promised)

    # Waiting tasks

    def can_hold_request(self, request: Request) -> bool:
        return self.kinds.fits_in(request)

    def kind_of(self, task: TaskBrief) -> int:
        return self.kinds.row(task.request, task.status is Status.PREEMPTED)

    def add_waiting(self, task: TaskBrief) -> None:
        """Known from now on, and in no queue yet."""
        kind, tenant = self.kind_of(task), self.tenants.number(task.tenant_id)
        self.waiting.add(task, kind, tenant)
        if not task.held:
            self.quotas.charge(tenant, kind, 1)

    def arrived(self, task: TaskBrief) -> None:
        self.mix.arrived(self.kind_of(task))

    def queue(self, task_id: TaskId, *, asleep: bool = False) -> None:
        """In its queue, once, however often it is told to go there. `asleep`: it may not start yet."""
        slot = self.waiting.slot_of[task_id]
        self.waiting.apart[slot] = asleep
        if self.waiting.queue_of(slot) is None:
            self.waiting.enqueue(slot)
            self._try_again(slot)

    def wake(self, task_id: TaskId) -> None:
        """It may start from now on, whatever was found while it slept. Of a gang: who stands for it."""
        slot = self.waiting.slot_of[task_id]
        if not self.waiting.in_gang[slot]:
            self.waiting.apart[slot] = False
        rank = TERMS[self.waiting.task(slot).priority_class].rank
        self.verdict.open(rank, int(self.waiting.kind[slot]))

    def queue_gang(self, gang: GangState) -> None:
        """Its first task stands for it, unless it only needs repair: that comes before the queues."""
        self.unqueue_gang(gang)
        gang.stands = min(gang.waiting)
        slot = self.waiting.slot_of[gang.stands]
        members = Counter(self.kind_of(self.waiting.task(self.waiting.slot_of[t])) for t in gang.waiting)
        shape = (tuple(sorted(members.items())), gang.gang)
        self.waiting.kind[slot] = self.kinds.gang_row(shape)
        self.waiting.gpu_ms[slot] = sum(
            self._policy.gpu_ms(self.waiting[task_id]) for task_id in gang.waiting
        )
        self.waiting.apart[slot] = True
        if not gang.running:
            self.waiting.enqueue(slot)
        self._try_again(slot)

    def unqueue_gang(self, gang: GangState) -> None:
        if gang.stands is not None:
            slot, gang.stands = self.waiting.slot_of[gang.stands], None
            self.waiting.dequeue(slot)
            self.waiting.apart[slot] = False
            self.waiting.kind[slot] = self.kind_of(self.waiting.task(slot))
            self.waiting.gpu_ms[slot] = self._policy.gpu_ms(self.waiting.task(slot))

    def remove_waiting(self, task_id: TaskId) -> None:
        slot = self.waiting.slot_of[task_id]
        task = self.waiting.task(slot)
        if not task.held:
            kind = self.kind_of(task) if task.gang is not None else self.waiting.kind.item(slot)
            self.quotas.charge(self.waiting.tenant.item(slot), kind, -1)
        self.waiting.remove(task_id)

    def age(self, now_ms: int) -> None:
        self.waiting.age(now_ms)
        self.mix.freeze(now_ms)

    def _try_again(self, slot: int) -> None:
        rank = TERMS[self.waiting.task(slot).priority_class].rank
        self.verdict.arrived(rank, int(self.waiting.kind[slot]), int(self.waiting.limit_ms[slot]))

    # Who holds what

    def hold(self, placed: Placed, now_ms: int) -> None:
        task, row, rank = placed.task, self.nodes.row(placed.node_id), placed.rank
        node = self.nodes.nodes[row]
        slot = self.attempts.new_slot(rank)
        held = self._give(task, node, placed.devices, slot, now_ms)
        self._held[task.task_id] = held
        self._count(held, 1, burst=task.burst)
        columns = self.attempts
        columns.node[slot] = row
        columns.kind[slot] = held.kind
        columns.limit_ms[slot] = 1000 * self._policy.duration_s(task)
        columns.gang[slot] = task.gang is not None
        columns.job[slot], columns.task[slot] = task.task_id
        columns.devices[slot] = mask_of(node, placed.devices)
        columns.milli[slot] = held.milli
        self._note_progress(placed, slot)

    def attempt_changed(self, placed: Placed) -> None:
        """It has started, or been told to stop."""
        self._note_progress(placed, self._held[placed.task.task_id].slot)

    def _note_progress(self, placed: Placed, slot: int) -> None:
        columns = self.attempts
        columns.start_ms[slot] = placed.since_ms
        columns.running[slot] = placed.state is AttemptState.RUNNING
        columns.stop_ms[slot] = placed.stop_by_ms or 0
        columns.saved_ms[slot] = placed.task.checkpoint_ms or 0

    def release(self, task_id: TaskId, now_ms: int) -> None:
        held = self._held.pop(task_id)
        self._count(held, -1, burst=self.attempts.free(held.slot) == BURST_RANK)
        self._take_back(held, now_ms)

    def _count(self, held: Held, sign: int, *, burst: bool) -> None:
        self.quotas.runs(held.tenant, sign)
        if burst:
            self.quotas.charge_burst(held.tenant, held.kind, sign)
        else:
            self.quotas.charge(held.tenant, held.kind, sign)

    def keep(self, holding: "Holding") -> None:
        """It has no slot: when it will be gone is not known, and it is nobody's victim."""
        node, kind = self._node(holding.node_id), self.kinds.row(holding.request, gentle=False)
        milli = milli_of(node, holding.devices, holding.request)
        amounts = self.charge_of(kind, len(holding.devices) * milli)
        held = Held(holding.node_id, kind, holding.devices, milli, -1, amounts, -1)
        self.holdings[holding.attempt_id], self._kept[holding.attempt_id] = holding, held
        self._move(held, -1)
        if len(self.cluster_free):
            self.cluster_free -= self.kinds.cluster_need[kind]

    def let_go(self, attempt_id: AttemptId) -> "Holding":
        held = self._kept.pop(attempt_id)
        self._free(held)
        return self.holdings.pop(attempt_id)

    def claim(self, claim: Claim, node: Node, now_ms: int) -> None:
        slot = self.waiting.slot_of[claim.task_id]
        self.waiting.dequeue(slot)
        held = self._give(self.waiting.task(slot), node, claim.devices, -1, now_ms)
        self._claimed[claim.task_id] = held
        self._promise(held, slot, 1)

    def unclaim(self, task_id: TaskId, now_ms: int) -> None:
        held = self._claimed.pop(task_id)
        self._promise(held, self.waiting.slot_of[task_id], -1)
        self._take_back(held, now_ms)

    def _promise(self, held: Held, slot: int, sign: int) -> None:
        """Who has a claim starts: what that takes of quotas is no longer there for others."""
        self.quotas.runs(held.tenant, sign)
        if self.waiting.held[slot]:
            self.quotas.charge(held.tenant, held.kind, sign)

    def take_again(self, task_id: TaskId) -> None:
        """Its node was described anew, as if it were empty."""
        held = self._held[task_id]
        node = self._move(held, -1)
        self.attempts.devices[held.slot] = mask_of(node, held.indices)

    def claim_again(self, task_id: TaskId) -> None:
        self._move(self._claimed[task_id], -1)

    def _give(self, task: TaskBrief, node: Node, indices: tuple[int, ...], slot: int, now_ms: int) -> Held:
        kind, milli = self.kinds.row(task.request, gentle=False), milli_of(node, indices, task.request)
        amounts = self.charge_of(kind, len(indices) * milli)
        held = Held(node.node_id, kind, indices, milli, self.tenants.number(task.tenant_id), amounts, slot)
        if len(self.cluster_free):
            self.cluster_free -= self.kinds.cluster_need[kind]
        self._move(held, -1)
        self.tenants.charge(held.tenant, amounts, 1, now_ms)
        return held

    def charge_of(self, kind: int, gpu_milli: int) -> Ints:
        """What a tenant's share counts of such a task that has so much of GPUs."""
        amounts = self._charges.get((kind, gpu_milli))
        if amounts is None:
            need, licences = self.kinds.need[kind], self.kinds.cluster_need[kind]
            amounts = np.concatenate([need, [gpu_milli], licences])
            self._charges[kind, gpu_milli] = amounts
        return amounts

    def _take_back(self, held: Held, now_ms: int) -> None:
        self.tenants.charge(held.tenant, held.amounts, -1, now_ms)
        self._free(held)

    def _free(self, held: Held) -> None:
        self._move(held, 1)
        if len(self.cluster_free):
            self.cluster_free += held.amounts[self.dimensions.gpu + 1 :]
            self.verdict.doubt_all()
        self.verdict.freed.add(held.node_id)

    def _node(self, node_id: str) -> Node:
        return self.nodes.nodes[self.nodes.row(node_id)]

    def _move(self, held: Held, sign: int) -> Node:
        row = self.nodes.row(held.node_id)
        node = self.nodes.nodes[row]
        self.nodes.move(row, self.kinds.need[held.kind], mask_of(node, held.indices), held.milli, sign)
        if self.kinds.exclusive[held.kind]:
            self.nodes.alone[row] -= sign
        return node

    def gives_way(self, node_id: str) -> None:
        """Somebody there may be stopped from now on: that may help as much as if it had left."""
        self.verdict.freed.add(node_id)

    def doubt_all(self) -> None:
        self.verdict.doubt_all()

    # Questions

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What went wrong in opinions from outside the tree."""
        return (*self.kinds.faults.values(), *self.waiting.faults.values())

    def task_of(self, attempt_slot: int) -> TaskId:
        job, task = self.attempts.job[attempt_slot], self.attempts.task[attempt_slot]
        return TaskId(int(job), int(task))

    def slot_of(self, task_id: TaskId) -> int:
        """Of the attempt of a task that is placed."""
        return self._held[task_id].slot

    def charged(self, task_id: TaskId) -> Ints:
        """What its tenant is charged for a task that holds something."""
        return self._held[task_id].amounts

    def in_order(self) -> list[TaskId]:
        found = []
        for name in sorted(self.waiting.queues):
            found += [self.waiting.task(slot).task_id for slot in self.waiting.queues[name].slots.tolist()]
        return found

    def position(self, task_id: TaskId) -> int:
        slot = self.waiting.slot_of[task_id]
        name = self.waiting.queue_of(slot)
        return 1 if name is None else 1 + self.waiting.queues[name].before(slot)


def mask_of(node: Node, indices: tuple[int, ...]) -> int:
    """One bit per position in the node's list of devices; one that has vanished has no position."""
    if not indices:
        return 0
    devices = node.capacity.devices
    mask = 0
    for index in indices:
        if index < len(devices) and devices[index].index == index:  # as nearly always
            mask |= 1 << index
        else:
            mask |= sum(1 << position for position, device in enumerate(devices) if device.index == index)
    return mask


def milli_of(node: Node, indices: tuple[int, ...], request: Request) -> int:
    """Thousandths of each of its devices that the request takes."""
    if not indices:
        return 0
    if request.gpu_milli:
        return min(request.gpu_milli, WHOLE)
    memory = max((d.memory_mib for d in node.capacity.devices if d.index == indices[0]), default=0)
    return -(-request.gpu_memory_mib * WHOLE // memory) if memory else WHOLE
