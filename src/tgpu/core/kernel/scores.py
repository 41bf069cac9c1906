"""How good is a node for a kind of request? One function per opinion; the highest score is taken."""

from tgpu.core.kernel.fragments import fragment_gain
from tgpu.core.kernel.room import has_room
from tgpu.core.kernel.shapes import WHOLE, Index, Kinds, Layouts, Nodes, Small

TIGHTEST = 0
SPREAD = 1
FRAGMENTATION = 2
OUTSIDE = 3
"""And above: scorers from outside the tree, in the order of their names."""

NO_ROOM = -1e300


def score(kind: int, node: int, nodes: Nodes, kinds: Kinds, layouts: Layouts, index: Index) -> float:
    """NO_ROOM, or what the kind's scorer says of a node that takes tasks, suits and has room."""
    if not nodes.takes[node] or not kinds.suits[kind, nodes.kind[node]]:
        return NO_ROOM
    if nodes.alone[node] > 0 or (kinds.exclusive[kind] and nodes.tasks[node] > 0):
        return NO_ROOM
    if kinds.scorer[kind] == TIGHTEST:
        return tightest(kind, node, nodes, kinds)
    layout = nodes.layout[node]
    if not has_room(kind, layout, nodes.free[node], nodes.gpu_free[node], 0, False, kinds):
        return NO_ROOM
    return opinion(kind, node, nodes, kinds, layouts, index)


def opinion(kind: int, node: int, nodes: Nodes, kinds: Kinds, layouts: Layouts, index: Index) -> float:
    """Of a node that has room."""
    scorer = kinds.scorer[kind]
    if scorer == TIGHTEST:
        return tightest(kind, node, nodes, kinds)
    if scorer == SPREAD:
        return spread(kind, node, nodes, kinds)
    if scorer == FRAGMENTATION:
        gain, _ = fragment_gain(kind, node, nodes, kinds, layouts, index.mix_kind, index.mix_weight)
        return gain
    return outside(kind, node, scorer - OUTSIDE, nodes)


def tightest(kind: int, node: int, nodes: Nodes, kinds: Kinds) -> float:
    """The part of what is left that the task would use, summed up; a CPU task stays off idle GPUs.

    NO_ROOM where that is more than is left: looked at once for both, as nothing is asked more often.
    """
    total = 0.0
    for dimension in range(kinds.need.shape[1]):
        need = kinds.need[kind, dimension]
        if need > 0:
            left = nodes.free[node, dimension]
            if need > left:
                return NO_ROOM
            total += need / left
    if kinds.gpus[kind] == 0:
        return float(total - nodes.gpu_sum[node] / WHOLE)
    part = part_of_gpus(kind, node, nodes, kinds)
    return NO_ROOM if part < 0 else total + part


def part_of_gpus(kind: int, node: int, nodes: Nodes, kinds: Kinds) -> float:
    """Of what is left on the devices that suit; -1 if these are too few."""
    layout, missing, left, asked = nodes.layout[node], kinds.gpus[kind], 0, 0
    for device in range(nodes.gpu_free.shape[1]):
        need, free = kinds.device_need[kind, layout, device], nodes.gpu_free[node, device]
        if need > 0:
            asked = need if asked == 0 else asked
            if free > 0:  # one that is in debt to a claim has nothing left
                left += free
            if need <= free:
                missing -= 1
    if missing > 0:
        return -1.0
    return float(WHOLE * kinds.gpus[kind] / left) if kinds.whole[kind] else float(asked / left)


def spread(kind: int, node: int, nodes: Nodes, kinds: Kinds) -> float:
    """The free part of what the node has, summed up over what the task needs."""
    total = 0.0
    for dimension in range(kinds.need.shape[1]):
        if kinds.need[kind, dimension] > 0:
            total += nodes.free[node, dimension] / nodes.capacity[node, dimension]
    if kinds.gpus[kind] == 0:
        return total
    need_row, free = kinds.device_need[kind, nodes.layout[node]], nodes.gpu_free[node]
    devices = 0
    for device in range(len(need_row)):
        if need_row[device] > 0:
            devices += 1
    return total + suiting_free(need_row, free) / (devices * WHOLE)


def outside(_kind: int, _node: int, _number: int, _nodes: Nodes) -> float:
    """Replaced while a plan is made with scorers from outside; those run uncompiled."""
    return 0.0


def suiting_free(need: Small, free: Small) -> int:
    """Thousandths left on the devices that suit; one that is in debt to a claim has none."""
    total = 0
    for device in range(len(need)):
        if need[device] > 0 and free[device] > 0:
            total += free[device]
    return total
