"""Many tasks at once, or none: tried on paper, and taken back if one of them finds no room."""

from tgpu.core.kernel.best_node import BLOCK, first_best, may_start_beside, renew_block, stays
from tgpu.core.kernel.filling import licensed, take
from tgpu.core.kernel.room import may_be_on
from tgpu.core.kernel.scores import NO_ROOM, opinion, score
from tgpu.core.kernel.shapes import (
    NOWHERE,
    Attempts,
    Flags,
    Index,
    Ints,
    Kinds,
    Layouts,
    Nodes,
    Small,
    Special,
    Tree,
)


def place_gang(
    member_kind: Small,
    end_ms: int,
    tenant_row: int,
    allowed: Flags,
    room_for: Small,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    tree: Tree,
    index: Index,
    own: Index,
    special: Special,
    cluster_free: Ints,
    amounts: Ints,
    out_node: Small,
    out_devices: Ints,
) -> bool:
    """Members of equal kind stand together. `allowed` nodes only, `room_for[n]` members more on each.

    `own` is an index of one row, for the gang alone; `amounts` receives what the whole gang is charged.
    """
    one = amounts.copy()
    amounts[:] = 0
    length = index.length[0]
    for member in range(len(member_kind)):
        kind = member_kind[member]
        if member == 0 or kind != member_kind[member - 1]:
            rate_all(kind, end_ms, tenant_row, allowed, room_for, nodes, kinds, layouts, tree, own, special)
        node = first_best(0, own) if licensed(kind, kinds, cluster_free) else NOWHERE
        if node == NOWHERE:
            undo(
                member, member_kind, out_node, out_devices, end_ms, room_for, nodes, kinds, special,
                cluster_free,
            )  # fmt: skip
            index.length[0] = length  # as if nothing had changed, and nothing has
            return False
        out_node[member] = node
        out_devices[member] = take(
            kind, node, end_ms, nodes, kinds, layouts, index, special, cluster_free, one
        )
        room_for[node] -= 1
        amounts += one
        was = own.score[0, node]
        now = rate(kind, node, end_ms, tenant_row, room_for, nodes, kinds, layouts, tree, own, special)
        own.score[0, node] = now
        renew_block(0, node, was, now, own)
    return True


def rate_all(
    kind: int,
    end_ms: int,
    tenant_row: int,
    allowed: Flags,
    room_for: Small,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    tree: Tree,
    own: Index,
    special: Special,
) -> None:
    for block in range(own.best.shape[1]):
        highest = NO_ROOM
        for node in range(block * BLOCK, min(len(allowed), (block + 1) * BLOCK)):
            found = NO_ROOM
            if allowed[node]:
                found = rate(
                    kind, node, end_ms, tenant_row, room_for, nodes, kinds, layouts, tree, own, special
                )
            own.score[0, node] = found
            highest = max(highest, found)
        own.best[0, block] = highest


def rate(
    kind: int,
    node: int,
    end_ms: int,
    tenant_row: int,
    room_for: Small,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    tree: Tree,
    own: Index,
    special: Special,
) -> float:
    if room_for[node] <= 0 or not may_be_on(kind, node, kinds):
        return NO_ROOM
    if not special.flag[node]:
        return score(kind, node, nodes, kinds, layouts, own)
    if may_start_beside(kind, node, end_ms, tenant_row, nodes, kinds, tree, special):
        return opinion(kind, node, nodes, kinds, layouts, own)
    return NO_ROOM


def undo(
    members: int,
    member_kind: Small,
    member_node: Small,
    member_devices: Ints,
    end_ms: int,
    room_for: Small,
    nodes: Nodes,
    kinds: Kinds,
    special: Special,
    cluster_free: Ints,
) -> None:
    """Give back, last first, what the first `members` of the gang have taken."""
    for member in range(members - 1, -1, -1):
        kind, node = member_kind[member], member_node[member]
        beside = stays(node, end_ms, special)
        for dimension in range(kinds.need.shape[1]):
            nodes.free[node, dimension] += kinds.need[kind, dimension]
            if beside:
                special.extra[node, dimension] += kinds.need[kind, dimension]
        for name in range(len(cluster_free)):
            cluster_free[name] += kinds.cluster_need[kind, name]
        for device in range(nodes.gpu_free.shape[1]):
            if (member_devices[member] >> device) & 1:
                need = kinds.device_need[kind, nodes.layout[node], device]
                nodes.gpu_free[node, device] += need
                nodes.gpu_sum[node] += need
                if beside:
                    special.extra_gpu[node, device] += need
        nodes.tasks[node] -= 1
        nodes.alone[node] -= kinds.exclusive[kind]
        room_for[node] += 1


def release_until(at_ms: int, nodes: Nodes, kinds: Kinds, attempts: Attempts) -> None:
    """All nodes as they are once everything has ended that ends by then."""
    for node in range(len(nodes.takes)):
        for row in range(attempts.begin[node], attempts.begin[node + 1]):
            if attempts.end_ms[row] > at_ms:
                break
            release(row, node, nodes, kinds, attempts)


def release(row: int, node: int, nodes: Nodes, kinds: Kinds, attempts: Attempts) -> None:
    """The attempt in this row is gone from the node."""
    kind = attempts.kind[row]
    for dimension in range(kinds.need.shape[1]):
        nodes.free[node, dimension] += kinds.need[kind, dimension]
    for device in range(nodes.gpu_free.shape[1]):
        if (attempts.devices[row] >> device) & 1:
            nodes.gpu_free[node, device] += attempts.milli[row]
            nodes.gpu_sum[node] += attempts.milli[row]
    nodes.tasks[node] -= 1
    nodes.alone[node] -= kinds.exclusive[kind]
