"""Snapshot of the cluster state for the projection of starts: copies that another thread may read.

Taking one costs a few copies of arrays and lists; everything that takes time is done on the copy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from tgpu.core.columns.attempt_columns import estimated_ends
from tgpu.core.columns.waiting_columns import EVERYBODY, FAIR, QueueName
from tgpu.core.kernel.shapes import Flags, Ints, Kinds, Small
from tgpu.core.outlook import gone_by_ms
from tgpu.core.parked import rests_until
from tgpu.core.picture import Picture
from tgpu.core.placed import Placed
from tgpu.core.plan import Reservation
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.priority import TERMS

MOST_PARKED = 10_000
"""Tasks beside all queues that a snapshot has."""


class NodeRows(NamedTuple):
    """One row per node: what is left there, claims taken off."""

    free: Ints
    capacity: Ints
    gpu_free: Small
    tasks: Small
    alone: Small
    takes: Flags
    kind: Small
    layout: Small


class Attempts(NamedTuple):
    """One row per attempt that holds something."""

    node: Small
    kind: Small
    start_ms: Ints
    limit_end_ms: Ints
    """When it is over at the latest, by its limit or because it is being stopped."""
    stopping: Flags
    devices: Ints
    milli: Small
    job: Ints
    task: Small


class NodeWindow(NamedTuple):
    """One node that is closed for a time to all tenants but one."""

    row: int
    from_ms: int
    until_ms: int
    tenant_id: str | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    now_ms: int
    policy: Policy
    nodes: NodeRows
    kinds: Kinds
    member_kinds: Mapping[Request, int]
    """The kinds of the members of gangs, whose slots have the kind of the gang."""
    attempts: Attempts
    placed: Mapping[TaskId, Placed]
    queues: tuple[tuple[QueueName, Small], ...]
    """Every queue with its slots in order."""
    waiting: list[TaskBrief | None]
    """By slot."""
    kind_of_slot: Small
    limit_ms: Ints
    """By slot."""
    gangs: Mapping[int, tuple[TaskBrief, ...]]
    """By job: the tasks of a gang that stands in a queue."""
    claims: Mapping[TaskId, int]
    """Tasks whose victims are leaving: when these are gone at the latest."""
    reservations: tuple[Reservation, ...]
    reserved_rows: tuple[tuple[int, ...], ...]
    """The node rows of each reservation."""
    windows: tuple[NodeWindow, ...]
    parked: tuple[TaskBrief, ...]
    """Tasks that are not in any queue: held, or waiting for a dependency or for a moment."""
    weights: Mapping[str, int]
    """By tenant."""
    running_limits: Mapping[str, int]
    """By tenant that has one: how many tasks may run."""
    total: Ints
    """What all nodes have; GPUs last."""
    unmaterialized: Mapping[int, int]
    """By array job: tasks that wait and have no rows yet."""
    arrivals: tuple[tuple[TaskBrief, int, QueueName, int], ...]
    """Parked tasks that join a queue at a known moment: with their kind, queue and that moment."""


def take(picture: Picture, policy: Policy, unmaterialized: Mapping[int, int] | None = None) -> Snapshot:
    table = picture.table
    gangs = _gangs(picture)
    member_kinds = {task.request: table.kind_of(task) for tasks in gangs.values() for task in tasks}
    arrivals = tuple(_arrivals(picture, policy))
    kinds = table.kinds.arrays()
    return Snapshot(
        now_ms=picture.now_ms,
        policy=policy,
        nodes=_nodes(picture),
        kinds=Kinds._make(column.copy() for column in kinds),
        member_kinds=member_kinds,
        attempts=_attempts(picture),
        placed=dict(picture.placed),
        queues=tuple((name, queue.slots.copy()) for name, queue in table.waiting.queues.items()),
        waiting=list(table.waiting.tasks),
        kind_of_slot=table.waiting.kind.copy(),
        limit_ms=table.waiting.limit_ms.copy(),
        gangs=gangs,
        claims=_claims(picture),
        reservations=picture.reservations,
        reserved_rows=tuple(
            tuple(table.nodes.row(node_id) for node_id, _ in each.places if table.nodes.known(node_id))
            for each in picture.reservations
        ),
        windows=_windows(picture),
        parked=tuple(islice(picture.parked, MOST_PARKED)),
        weights={name: tenant.weight for name, tenant in picture.tenants.items()},
        running_limits={
            name: tenant.job_limits.running
            for name, tenant in picture.tenants.items()
            if tenant.job_limits.running is not None
        },
        total=table.nodes.total().copy(),
        unmaterialized=dict(unmaterialized or {}),
        arrivals=arrivals,
    )


def _nodes(picture: Picture) -> NodeRows:
    nodes = picture.table.nodes
    return NodeRows(
        nodes.free.copy(),
        nodes.capacity.copy(),
        nodes.gpu_free.copy(),
        nodes.tasks.copy(),
        nodes.alone.copy(),
        nodes.takes.copy(),
        nodes.kind.copy(),
        nodes.layout.copy(),
    )


def _attempts(picture: Picture) -> Attempts:
    columns = picture.table.attempts
    slots = columns.all_slots()
    start_ms, stop_ms = columns.start_ms[slots], columns.stop_ms[slots]
    ends = estimated_ends(start_ms, columns.limit_ms[slots], stop_ms, picture.now_ms)
    return Attempts(
        columns.node[slots],
        columns.kind[slots],
        start_ms,
        ends,
        stop_ms > 0,
        columns.devices[slots],
        columns.milli[slots],
        columns.job[slots],
        columns.task[slots],
    )


def _gangs(picture: Picture) -> dict[int, tuple[TaskBrief, ...]]:
    waiting = picture.table.waiting
    found = {}
    for queue in waiting.queues.values():
        slots = queue.slots
        for slot in slots[waiting.in_gang[slots]].tolist():
            job_id = waiting.task(slot).task_id.job_id
            members = picture.gangs.of(job_id).waiting
            found[job_id] = tuple(waiting[task_id] for task_id in members)
    return found


def _arrivals(picture: Picture, policy: Policy) -> Iterator[tuple[TaskBrief, int, QueueName, int]]:
    table, tenants = picture.table, picture.table.tenants
    for task in islice(picture.parked, MOST_PARKED):
        until_ms, timing = rests_until(task), task.timing
        if until_ms <= picture.now_ms or task.gang is not None or (timing is not None and timing.is_parked):
            continue
        if task.held or task.tenant_id not in picture.tenants or not table.can_hold_request(task.request):
            continue
        order = policy.of(task.request.pool).order
        tenant = tenants.number(task.tenant_id) if order in FAIR else EVERYBODY
        name = QueueName(TERMS[task.priority_class].rank, order, tenant)
        yield task, table.kind_of(task), name, until_ms


def _claims(picture: Picture) -> dict[TaskId, int]:
    found = {}
    for preempt in picture.preempts:
        gone = [gone_by_ms(picture, each.task_id) for each in preempt.victims if picture.live(each)]
        for claim in preempt.claims:
            found[claim.task_id] = max(gone, default=picture.now_ms)
    return found


def _windows(picture: Picture) -> tuple[NodeWindow, ...]:
    nodes = picture.table.nodes
    return tuple(
        NodeWindow(nodes.row(node_id), window.from_ms, window.until_ms, window.tenant_id)
        for window in picture.windows
        for node_id in sorted(window.node_ids)
        if window.until_ms > picture.now_ms and nodes.known(node_id)
    )
