"""How the queues stand: who waits for whom, and what each tenant has of its share."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tgpu.core.engine import PLAIN
from tgpu.core.kernel.shapes import Ints
from tgpu.core.picture import Picture
from tgpu.domain.priority import TERMS, PriorityClass
from tgpu.domain.quota import Amounts
from tgpu.domain.views import ClusterShares, QueueView, Reason, TenantShare

Key = tuple[str, PriorityClass]
"""A tenant and a class."""


class ToCome(NamedTuple):
    """Tasks that wait, and are not in the picture yet."""

    tasks: int
    job_id: int
    """The first that they are of."""
    reason: Reason
    """Why that one goes on with no more of them."""


def queue_views(picture: Picture, to_come: Mapping[Key, ToCome]) -> list[QueueView]:
    """Every tenant and class with somebody waiting; the head is the first in its queue."""
    depth = Counter((task.tenant_id, task.priority_class) for task in picture.waiting.values())
    depth.update({key: more.tasks for key, more in to_come.items()})
    heads, shares = _heads(picture), _weighted_shares(picture)
    views = []
    for (tenant_id, priority_class), count in sorted(depth.items()):
        weight = picture.tenants[tenant_id].weight
        share = shares[tenant_id]
        head = heads.get((tenant_id, TERMS[priority_class].rank))
        later = to_come.get((tenant_id, priority_class)) if head is None else None
        views.append(
            QueueView(
                tenant_id,
                priority_class,
                count,
                head if later is None else later.job_id,
                weighted_share=round(share, 6),
                dominant_share=round(share * weight, 6),
                head_reasons=() if later is None else (later.reason,),
            )
        )
    return views


def cluster_shares(picture: Picture) -> ClusterShares:
    """What every tenant holds of the cluster, by the tree that plans are made with."""
    table = picture.table
    tree, gpu = table.tree(picture.now_ms), table.dimensions.gpu

    def amounts(row: Ints) -> Amounts:
        cpu_milli, memory_mib, disk_mib = (int(row[at]) for at in range(3))
        return Amounts(cpu_milli, memory_mib, disk_mib, int(row[gpu]))

    names = {0: "cpu", 1: "memory", gpu: "gpu"}
    parts = tree.used / np.maximum(tree.total, 1) * (tree.total > 0)
    found = []
    for tenant_id, row in sorted(table.tenants.top_row.items()):
        largest = int(np.argmax(parts[row]))
        share = float(parts[row, largest])
        name = names.get(largest, "other") if share else ""
        found.append(TenantShare(tenant_id, round(share, 6), name, amounts(tree.used[row])))
    return ClusterShares(amounts(tree.total), tuple(found))


def _heads(picture: Picture) -> dict[tuple[str, int], int]:
    """By tenant and class. Who waits only for its victims to go stands in no queue."""
    waiting = picture.table.waiting
    found: dict[tuple[str, int], int] = {}
    for name in sorted(waiting.queues):
        slots = waiting.queues[name].slots
        _, firsts = np.unique(waiting.tenant[slots], return_index=True)
        for slot in slots[firsts].tolist():
            task = waiting.task(slot)
            found.setdefault((task.tenant_id, name.rank), task.task_id.job_id)
    return found


def _weighted_shares(picture: Picture) -> dict[str, float]:
    """Of every tenant with everybody below it, by the tree that plans are made with."""
    table = picture.table
    tree = table.tree(picture.now_ms)
    return {name: float(PLAIN.share(row, tree)) for name, row in table.tenants.top_row.items()}
