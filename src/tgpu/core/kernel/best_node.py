"""Which node is best for a kind now, without looking at all of them each time."""

from tgpu.core.kernel.room import has_room, may_be_on
from tgpu.core.kernel.scores import NO_ROOM, opinion, score
from tgpu.core.kernel.shapes import NEVER, NOWHERE, UNKNOWN, Index, Kinds, Layouts, Nodes, Special, Tree

BLOCK = 64
"""Nodes whose best score is kept together."""


def best_node(
    kind: int,
    end_ms: int,
    tenant_row: int,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    tree: Tree,
    index: Index,
    special: Special,
) -> int:
    """The node with room and the highest score (equal: the first), or NOWHERE."""
    best, best_score = NOWHERE, NO_ROOM
    pinned = kinds.pinned[kind]
    if pinned == UNKNOWN:
        return NOWHERE
    if pinned != NOWHERE:
        if not special.flag[pinned] and score(kind, pinned, nodes, kinds, layouts, index) > NO_ROOM:
            return int(pinned)
    else:
        catch_up(kind, nodes, kinds, layouts, index, special)
        best = first_best(kind, index)
        best_score = index.score[kind, best] if best != NOWHERE else NO_ROOM
    for at in range(special.filled[0]):
        node = special.node[at]
        if not may_be_on(kind, node, kinds):
            continue
        if not may_start_beside(kind, node, end_ms, tenant_row, nodes, kinds, tree, special):
            continue
        found = opinion(kind, node, nodes, kinds, layouts, index)
        if found > best_score or (found == best_score and node < best):
            best, best_score = int(node), found
    return best


def catch_up(kind: int, nodes: Nodes, kinds: Kinds, layouts: Layouts, index: Index, special: Special) -> None:
    """Bring the kind's row up to date with the nodes that changed since it was last asked for."""
    seen, length = index.seen[kind], index.length[0]
    if seen < 0:
        build(kind, nodes, kinds, layouts, index, special)
    else:
        for at in range(seen, length):
            node = index.log[at]
            if at + 1 < length and index.log[at + 1] == node:
                continue
            if index.room[kind, node]:  # room only shrinks while a plan is made
                was = index.score[kind, node]
                now = NO_ROOM if special.flag[node] else score(kind, node, nodes, kinds, layouts, index)
                if now != was:
                    index.room[kind, node] = now > NO_ROOM
                    index.score[kind, node] = now
                    renew_block(kind, node, was, now, index)
    index.seen[kind] = length


def build(kind: int, nodes: Nodes, kinds: Kinds, layouts: Layouts, index: Index, special: Special) -> None:
    count = len(nodes.takes)
    for block in range(index.best.shape[1]):
        highest = NO_ROOM
        for node in range(block * BLOCK, min(count, (block + 1) * BLOCK)):
            found = NO_ROOM if special.flag[node] else score(kind, node, nodes, kinds, layouts, index)
            index.score[kind, node] = found
            index.room[kind, node] = found > NO_ROOM
            highest = max(highest, found)
        index.best[kind, block] = highest


def renew_block(kind: int, node: int, was: float, now: float, index: Index) -> None:
    block = node // BLOCK
    best = index.best[kind, block]
    if now >= best:
        index.best[kind, block] = now
    elif was == best:
        highest = NO_ROOM
        for other in range(block * BLOCK, min(index.score.shape[1], (block + 1) * BLOCK)):
            highest = max(highest, index.score[kind, other])
        index.best[kind, block] = highest


def first_best(kind: int, index: Index) -> int:
    best_block, best = NOWHERE, NO_ROOM
    for block in range(index.best.shape[1]):
        if index.best[kind, block] > best:
            best_block, best = block, index.best[kind, block]
    if best_block == NOWHERE:
        return NOWHERE
    node = best_block * BLOCK
    while index.score[kind, node] != best:
        node += 1
    return node


def may_start_beside(
    kind: int,
    node: int,
    end_ms: int,
    tenant_row: int,
    nodes: Nodes,
    kinds: Kinds,
    tree: Tree,
    special: Special,
) -> bool:
    """On a node with reservations or a window: is there room, and is nobody delayed?"""
    if not nodes.takes[node] or not kinds.suits[kind, nodes.kind[node]]:
        return False
    if end_ms > special.closes_ms[node] and runs_into_window(node, end_ms, tenant_row, tree, special):
        return False
    layout = nodes.layout[node]
    if end_ms <= special.shadow_ms[node]:
        free, gpu_free = nodes.free[node], nodes.gpu_free[node]
        return has_room(kind, layout, free, gpu_free, nodes.tasks[node], nodes.alone[node], kinds)
    return may_stay(kind, node, nodes, kinds, special)


def may_stay(kind: int, node: int, nodes: Nodes, kinds: Kinds, special: Special) -> bool:
    """Into the reserved time, that is: there must be room both now and then."""
    if special.extra_alone[node] or kinds.exclusive[kind]:
        return False
    for dimension in range(kinds.need.shape[1]):
        need = kinds.need[kind, dimension]
        if need > 0 and need > special.extra[node, dimension]:
            return False
    both_free(node, nodes, special)
    return has_room(
        kind,
        nodes.layout[node],
        nodes.free[node],
        special.scratch,
        nodes.tasks[node],
        nodes.alone[node],
        kinds,
    )


def both_free(node: int, nodes: Nodes, special: Special) -> None:
    """In `scratch`: what is left of each device both now and beside the reservations."""
    for device in range(len(special.scratch)):
        special.scratch[device] = min(nodes.gpu_free[node, device], special.extra_gpu[node, device])


def runs_into_window(node: int, end_ms: int, tenant_row: int, tree: Tree, special: Special) -> bool:
    for at in range(len(special.window_node)):
        in_the_way = special.window_node[at] == node and end_ms > special.window_from_ms[at]
        if in_the_way and not below(tenant_row, special.window_guest[at], tree):
            return True
    return False


def below(row: int, top: int, tree: Tree) -> bool:
    if top == NOWHERE:
        return False
    while row >= 0:
        if row == top:
            return True
        row = tree.parent[row]
    return False


def stays(node: int, end_ms: int, special: Special) -> bool:
    """Whether a task there lives into the reserved time."""
    if not special.flag[node] or special.shadow_ms[node] == NEVER:
        return False
    return bool(end_ms > special.shadow_ms[node])
