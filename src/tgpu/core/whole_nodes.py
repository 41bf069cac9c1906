"""Gangs that have a number of nodes to fill evenly: which nodes these could be.

Eight tasks, four on each of two nodes, are not eight that may be anywhere with at most four on a node. So
nodes are chosen first, the best of those that have room for all that each is to get; then the tasks are
placed there.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tgpu.core.kernel.shapes import Flags, Ints, Nodes, Small, Special
from tgpu.core.paper import Paper, own_nodes
from tgpu.core.units import Unit, nodes_of, room_for


@dataclass(frozen=True, slots=True)
class Site:
    """Where it is tried: nothing of this is changed here."""

    nodes: Nodes
    special: Special
    cluster_free: Ints
    end_ms: int
    tenant_row: int


def fills_nodes(unit: Unit) -> bool:
    """With one task on each node there is nothing to fill."""
    gang = None if unit.gang is None else unit.gang.gang
    return gang is not None and gang.nodes is not None and gang.per_node is not None and gang.per_node > 1


def sets_of_nodes(paper: Paper, unit: Unit, kinds: Small, site: Site, allowed: Flags) -> Iterator[Flags]:
    """Each to be tried if the one before did not do; `allowed` itself for a gang that need not fill nodes."""
    if unit.gang is None or not fills_nodes(unit):
        yield allowed
        return
    nodes, per_node = unit.gang.gang.nodes or 0, unit.gang.gang.per_node or 1
    has = nodes_of(paper, unit.gang)
    if len(set(has)) >= nodes:  # those that are replaced go where they were missed
        yield allowed & np.isin(paper.table.nodes.names, has)
        return
    kind, (full, rest) = int(kinds[0]), divmod(len(kinds), per_node)
    room = np.where(allowed, np.minimum(_most(paper, kind, site.nodes), room_for(paper, unit)), 0)
    while True:
        chosen = _best(paper, kind, full, room >= per_node, site)
        last = None if chosen is None else _best(paper, kind, min(rest, 1), (room >= rest) & ~chosen, site)
        if chosen is None or last is None:
            return
        yield chosen | last
        misfits = [
            node
            for flags, count in ((chosen, per_node), (last, rest))
            for node in np.flatnonzero(flags).tolist()
            if _placed(paper, kind, count, _only(node, flags), room, site) is None
        ]
        if not misfits:
            return  # something else is missing, and no other nodes have it
        room[misfits] = 0


def _most(paper: Paper, kind: int, nodes: Nodes) -> Small:
    """How many tasks of this kind each node has room for, at most: what is kept for others is left out."""
    kinds, count = paper.kinds, len(nodes.takes)
    most = np.full(count, np.iinfo(np.int32).max, dtype=np.int64)
    for column in np.flatnonzero(kinds.need[kind] > 0).tolist():
        most = np.minimum(most, nodes.free[:, column] // kinds.need[kind, column])
    if kinds.gpus[kind]:
        need = kinds.device_need[kind][nodes.layout]
        each = np.where(need > 0, nodes.gpu_free // np.maximum(need, 1), 0)
        devices = np.minimum(each, 1) if kinds.whole[kind] else each
        most = np.minimum(most, devices.sum(axis=1) // int(kinds.gpus[kind]))
    if kinds.exclusive[kind]:
        most = np.minimum(most, 1)
    return np.where(nodes.takes, np.maximum(most, 0), 0).astype(np.int32)


def _best(paper: Paper, kind: int, count: int, among: Flags, site: Site) -> Flags | None:
    """So many nodes, as the planner would choose them for one task each."""
    once = np.ones(len(among), dtype=np.int32)
    found = _placed(paper, kind, count, among, once, site)
    return None if found is None else np.isin(np.arange(len(among)), found)


def _only(node: int, like: Flags) -> Flags:
    flags = np.zeros_like(like)
    flags[node] = True
    return flags


def _placed(  # noqa: PLR0917  what a place depends on
    paper: Paper, kind: int, count: int, allowed: Flags, room: Small, site: Site
) -> list[int] | None:
    """Where so many tasks of this kind would be, together; None if they do not fit. On paper of its own."""
    if count == 0:
        return []
    kinds, length = np.full(count, kind, dtype=np.int32), int(paper.index.length[0])
    out_node, special = kinds.copy(), site.special
    fit = paper.engine.place_gang(
        kinds,
        site.end_ms,
        site.tenant_row,
        allowed,
        room.astype(np.int32),
        own_nodes(site.nodes),
        paper.kinds,
        paper.layouts,
        paper.tree,
        paper.index,
        paper.new_index(1, 0),
        special._replace(extra=special.extra.copy(), extra_gpu=special.extra_gpu.copy()),
        site.cluster_free.copy(),
        paper.new_amounts(),
        out_node,
        kinds.astype(np.int64),
    )
    paper.index.length[0] = length  # nothing has changed
    return out_node.tolist() if fit else None
