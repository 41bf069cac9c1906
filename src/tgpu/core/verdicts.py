"""What an event may have cured: the only ones that an incremental cycle asks again."""

import numpy as np

from tgpu.core.kernel.shapes import NEVER, Ints
from tgpu.core.paper import Paper
from tgpu.core.policy import Policy
from tgpu.domain.priority import BURST_RANK

MOST_NODES = 64
"""With more nodes changed than this, everything is asked again."""


def cured(paper: Paper, policy: Policy) -> Ints:
    """The last verdict, less what has become possible since."""
    verdict = paper.table.verdict
    kinds = len(paper.kinds.gpus)
    verdict.make_room(kinds)
    blocked_ms = verdict.blocked_ms[:, :kinds].copy()
    if len(verdict.freed) > MOST_NODES:
        blocked_ms[:] = NEVER
        return blocked_ms
    for rank, kind in verdict.deferred:
        blocked_ms[rank, kind] = NEVER
    asked = (blocked_ms < NEVER).any(axis=0)
    room = np.zeros(kinds, dtype=np.bool_)
    gangs = paper.table.kinds.of_gang[:kinds]
    for node_id in sorted(verdict.freed):
        if not paper.table.nodes.known(node_id):
            continue
        row = paper.table.nodes.row(node_id)
        paper.engine.cures(row, paper.nodes, paper.kinds, asked, room)
        room |= gangs & bool(paper.nodes.takes[row])
        if policy.preemption and paper.nodes.takes[row]:
            _by_preemption(paper, row, blocked_ms)
    blocked_ms[:, room] = NEVER
    return blocked_ms


def _by_preemption(paper: Paper, row: int, blocked_ms: Ints) -> None:
    """Fewer victims are needed where somebody has left: who ranks above some who are there may try again."""
    if (blocked_ms[:BURST_RANK] == NEVER).all():
        return
    columns = paper.table.attempts
    here = columns.live & (columns.node == row)
    if here.any():
        lowest = min(BURST_RANK, int(columns.rank[here].max()))
        suits = paper.kinds.suits[:, paper.nodes.kind[row]]
        blocked_ms[:lowest, suits] = NEVER
