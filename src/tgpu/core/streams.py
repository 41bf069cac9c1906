"""Everybody of one class under one order, as the kernel walks through them."""

import numpy as np

from tgpu.core.columns.waiting_columns import EVERYBODY
from tgpu.core.kernel.shapes import NOWHERE, Small, Stream
from tgpu.core.paper import Paper


def stream_of(paper: Paper, rank: int, order: str, *, burst: bool = False) -> Stream | None:
    """None if nobody waits there. `burst`: only those whom the quota did not admit."""
    queues = paper.table.waiting.streams.get((rank, order))
    if not queues:
        return None
    runs: list[Small] = []
    tenants: list[int] = []
    for tenant, queue in queues.items():
        slots = queue.slots
        if burst:
            slots = _who_may_burst(paper, slots)
        runs.append(slots)
        tenants.append(tenant)
    ends = np.cumsum([len(run) for run in runs], dtype=np.int64)
    rows = len(paper.tree.parent)
    flat = tenants == [EVERYBODY]
    queue_of = np.full(rows, NOWHERE, dtype=np.int32)
    if flat:
        queue_of[0] = 0
    else:
        queue_of[paper.table.tenants.row_of[tenants]] = np.arange(len(tenants))
    stream = Stream(
        runs[0] if len(runs) == 1 else np.concatenate(runs),
        np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1]]),
        ends,
        np.zeros(len(runs), dtype=np.bool_),
        queue_of,
        np.empty(rows, dtype=np.int32),
        np.zeros(rows, dtype=np.int32),
        np.empty(rows, dtype=np.float64),
        paper.table.tenants.row_of,
        flat,
        order == "fair-tree",
        burst,
        paper.table.quotas.limits_begin,
        paper.short,
        paper.refused.asks and not burst,
        paper.refused.promised,
        paper.refused.codes,
        paper.refused.before,
        paper.refused.line,
        paper.refused.filled,
    )
    line_up(paper, stream)
    return stream


def _who_may_burst(paper: Paper, slots: Small) -> Small:
    slots = slots[paper.waiting.held[slots] & ~paper.waiting.taken[slots]]
    _, firsts, back = np.unique(paper.waiting.tenant[slots], return_index=True, return_inverse=True)
    tasks = [paper.table.waiting.task(slot) for slot in slots[firsts].tolist()]
    may = np.array([paper.table.quotas.may_burst(task.tenant_id) for task in tasks], dtype=np.bool_)
    return slots[may[back]]


def line_up(paper: Paper, stream: Stream) -> None:
    """Again, whenever somebody's use changed other than by the start of whose turn it was."""
    if not stream.flat:
        paper.engine.line_up(paper.tree, stream)
