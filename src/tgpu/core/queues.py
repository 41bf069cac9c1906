"""How the queues stand: who waits for whom, and what each tenant has of its share."""

from collections import Counter

import numpy as np

from tgpu.core.engine import PLAIN
from tgpu.core.picture import Picture
from tgpu.domain.priority import TERMS
from tgpu.domain.views import QueueView


def queue_views(picture: Picture) -> list[QueueView]:
    """Every tenant and class with somebody waiting; the head is the first in its queue."""
    depth = Counter((task.tenant_id, task.priority_class) for task in picture.waiting.values())
    heads, shares = _heads(picture), _weighted_shares(picture)
    views = []
    for (tenant_id, priority_class), count in sorted(depth.items()):
        weight = picture.tenants[tenant_id].weight
        share = shares[tenant_id]
        views.append(
            QueueView(
                tenant_id,
                priority_class,
                count,
                heads.get((tenant_id, TERMS[priority_class].rank)),
                weighted_share=round(share, 6),
                dominant_share=round(share * weight, 6),
            )
        )
    return views


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
