"""The short way to the same plan, when all who wait are alike and nobody is promised anything.

A workstation with a long queue is in this state most of the time: each time a task ends, the next of its kind
starts, and nothing else is to be weighed. Laying everything out on paper would cost more than deciding.
"""

from tgpu.core.backfill import give, indices_of
from tgpu.core.columns.table import Table
from tgpu.core.columns.waiting_columns import QueueName
from tgpu.core.kernel.room import devices_for, may_be_on
from tgpu.core.kernel.scores import NO_ROOM, TIGHTEST, tightest
from tgpu.core.kernel.shapes import NOWHERE, Kinds, Nodes
from tgpu.core.paper import own_nodes
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Start
from tgpu.core.policy import Policy

MOST_NODES = 8
"""With more of them, the compiled way is shorter."""


def express(picture: Picture, policy: Policy, most_starts: int | None = None) -> Plan | None:
    """What `plan` would decide, or None: it is not that simple."""
    table = picture.table
    name = _only_queue(picture)
    if name is None or (policy.preemption and table.attempts.any_below(name.rank)):
        return None
    kind = _only_kind(table, name)
    if kind is None:
        return None
    starts = _fill(table, name, kind, most_starts)
    verdict, faults = table.verdict.blocked_ms.copy(), table.faults
    if len(starts) == len(table.waiting.queues[name]):
        return Plan(picture.version, tuple(starts), faults=faults, verdict=verdict)
    if len(starts) == most_starts:
        return Plan(picture.version, tuple(starts), faults=faults, more=True, verdict=verdict)
    verdict[name.rank :, kind] = table.waiting.shortest_ms[name.rank, kind]
    deferred = ((name.rank, kind),)
    return Plan(picture.version, tuple(starts), faults=faults, verdict=verdict, deferred=deferred)


def _only_queue(picture: Picture) -> QueueName | None:
    table = picture.table
    promised = picture.preempts or picture.reservations or picture.windows or len(picture.gangs)
    promised = promised or picture.moments.anybody_sleeps
    few = len(table.waiting.queues) == 1 and len(table.nodes) <= MOST_NODES
    return next(iter(table.waiting.queues)) if few and not promised and not table.verdict.all_open else None


def _only_kind(table: Table, name: QueueName) -> int | None:
    """Of all in the queue, if there is nothing about it that needs a closer look."""
    waiting, queue = table.waiting, table.waiting.queues[name]
    kind = int(waiting.kind[queue.slots[0]])
    alike = waiting.count[name.rank, kind] == len(queue) and table.kinds.scorer[kind] == TIGHTEST
    asks_quota = waiting.any_held or table.quotas.limits_begin
    return kind if alike and not len(table.cluster_free) and not asks_quota else None


def _fill(table: Table, name: QueueName, kind: int, most_starts: int | None) -> list[Start]:
    kinds, layouts = table.kinds.arrays(), table.nodes.layouts()
    nodes = own_nodes(table.nodes.arrays())
    suiting = _suiting(kind, nodes, kinds)
    starts: list[Start] = []
    for slot in table.waiting.queues[name].slots[:most_starts]:
        node = _best(kind, suiting, nodes, kinds)
        if node == NOWHERE:
            break
        devices = devices_for(kind, int(nodes.layout[node]), nodes.gpu_free[node], kinds, layouts)
        give(nodes, kinds, kind, node, devices)
        about = table.nodes.nodes[node]
        starts.append(Start(table.waiting.task(int(slot)).task_id, about.node_id, indices_of(about, devices)))
    return starts


def _suiting(kind: int, nodes: Nodes, kinds: Kinds) -> list[int]:
    """The nodes that it may have, whoever else is there."""
    return [
        node
        for node in range(len(nodes.takes))
        if nodes.takes[node] and kinds.suits[kind, nodes.kind[node]] and may_be_on(kind, node, kinds)
    ]


def _best(kind: int, suiting: list[int], nodes: Nodes, kinds: Kinds) -> int:
    best, highest = NOWHERE, NO_ROOM
    for node in suiting:
        if not nodes.alone[node] and not (kinds.exclusive[kind] and nodes.tasks[node]):
            found = tightest(kind, node, nodes, kinds)
            if found > highest:
                best, highest = node, found
    return best
