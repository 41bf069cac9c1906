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
    layout = nodes.layout[node]
    free, gpu_free = nodes.free[node], nodes.gpu_free[node]
    if not has_room(kind, layout, free, gpu_free, nodes.tasks[node], nodes.alone[node], kinds):
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
    """The part of what is left that the task would use, summed up; a CPU task stays off idle GPUs."""
    total = 0.0
    for dimension in range(kinds.need.shape[1]):
        need = kinds.need[kind, dimension]
        if need > 0:
            total += need / nodes.free[node, dimension]
    count = kinds.gpus[kind]
    if count == 0:
        return float(total - nodes.gpu_sum[node] / WHOLE)
    need_row, free = kinds.device_need[kind, nodes.layout[node]], nodes.gpu_free[node]
    return total + gpu_need(count, kinds.whole[kind], need_row) / suiting_free(need_row, free)


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


def gpu_need(count: int, whole: bool, need: Small) -> int:
    """Thousandths in all; by memory, of the first device that suits."""
    if whole:
        return count * WHOLE
    for device in range(len(need)):
        if need[device] > 0:
            return int(need[device])
    return 0


def suiting_free(need: Small, free: Small) -> int:
    """Thousandths left on the devices that suit; one that is in debt to a claim has none."""
    total = 0
    for device in range(len(need)):
        if need[device] > 0 and free[device] > 0:
            total += free[device]
    return total
