"""Progressive filling: one unit after the other, in order, onto the best node, until somebody cannot."""

from tgpu.core.kernel.best_node import best_node, both_free, stays
from tgpu.core.kernel.fragments import fragment_gain
from tgpu.core.kernel.promises import ALIKE, HOURS, refuse
from tgpu.core.kernel.room import devices_for, has_room
from tgpu.core.kernel.scores import FRAGMENTATION
from tgpu.core.kernel.shapes import (
    NOWHERE,
    Flags,
    Index,
    Ints,
    Kinds,
    Layouts,
    Nodes,
    Special,
    Started,
    Stream,
    Tree,
    Waiting,
)
from tgpu.core.kernel.skipping import past_closed
from tgpu.core.kernel.turns import admit, begin, burst_has_room, charge, drop, next_row, settle, short_of

DONE = 0
"""Nobody of this stream is left to try."""
NO_ROOM_FOR = 1
"""This slot's task has no room anywhere."""
GANG = 2
"""It is the turn of a gang: more than one task at once."""
NO_LICENCE = 3
"""The cluster as a whole has too little of something that this slot's task needs."""


def fill(
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    tree: Tree,
    waiting: Waiting,
    stream: Stream,
    index: Index,
    special: Special,
    cluster_free: Ints,
    blocked_ms: Ints,
    now_ms: int,
    amounts: Ints,
    started: Started,
) -> tuple[int, int, int]:
    """Start whoever can; stop at the first who needs a closer look: (why, slot, queue).

    `amounts` is only for writing on: this makes no arrays.
    """
    while True:
        row = 0 if stream.flat else next_row(tree, stream)
        if row < 0:
            return DONE, NOWHERE, NOWHERE
        queue = stream.queue_of[row]
        slot = next_open(queue, waiting, stream, blocked_ms)
        if slot < 0:
            if stream.flat:
                return DONE, NOWHERE, NOWHERE
            drop(row, tree, stream)
            continue
        kind, leaf = waiting.kind[slot], stream.row_of[waiting.tenant[slot]]
        if waiting.gang[slot]:
            return GANG, slot, queue
        if is_passed_over(slot, leaf, queue, kinds, tree, waiting, stream) or (
            waiting.limit_ms[slot] >= blocked_ms[kind]  # it was only to be asked for its quota
        ):
            stream.head[queue] += 1
            continue
        if not licensed(kind, kinds, cluster_free):
            return NO_LICENCE, slot, queue
        end_ms = now_ms + waiting.limit_ms[slot]
        node = best_node(kind, end_ms, leaf, nodes, kinds, layouts, tree, index, special)
        if node == NOWHERE:
            return NO_ROOM_FOR, slot, queue
        devices = take(kind, node, end_ms, nodes, kinds, layouts, index, special, cluster_free, amounts)
        admission = count_start(slot, leaf, kinds.quota[kind], waiting, tree, stream)
        write_down(slot, kind, node, devices, admission, started)
        charge(leaf, amounts, tree, stream)
        settle(row, tree, stream)
        waiting.taken[slot] = True
        stream.head[queue] += 1


def is_passed_over(
    slot: int, leaf: int, queue: int, kinds: Kinds, tree: Tree, waiting: Waiting, stream: Stream
) -> bool:
    """Because of some quota: then those are, too, who would ask the same."""
    if waiting.held[slot] and not stream.burst:
        return is_refused(slot, leaf, kinds, tree, waiting, stream)
    if stream.limited and not may_begin(slot, leaf, tree, waiting, stream):
        if stream.asks:
            note_refusal(slot, HOURS, len(kinds.gpus), waiting, stream)
        return True
    if waiting.held[slot] and not burst_has_room(leaf, kinds.quota[waiting.kind[slot]], tree):
        stream.held_stop[queue] = True
        return True
    return False


def is_refused(slot: int, leaf: int, kinds: Kinds, tree: Tree, waiting: Waiting, stream: Stream) -> bool:
    """Of a held task: then what it asks for is kept for it."""
    asked, gpu_ms = kinds.quota[waiting.kind[slot]], waiting.gpu_ms[slot]
    lacks = refuse(leaf, waiting.tenant[slot], asked, 1, gpu_ms, tree, stream.promised)
    if lacks == 0:
        return False
    note_refusal(slot, lacks, len(kinds.gpus), waiting, stream)
    stream.line[stream.line_filled[0]] = slot
    stream.line_filled[0] += 1
    return True


def note_refusal(slot: int, lacks: int, kinds: int, waiting: Waiting, stream: Stream) -> None:
    """Of its tenant and kind."""
    at = waiting.tenant[slot] * kinds + waiting.kind[slot]
    stream.refused[at] = max(stream.refused[at], lacks)


def may_begin(slot: int, leaf: int, tree: Tree, waiting: Waiting, stream: Stream) -> bool:
    """If not, everybody of its tenant who takes as much is passed over, too."""
    short = short_of(leaf, 1, waiting.gpu_ms[slot], tree)
    if short < 0:
        return True
    stream.short[waiting.tenant[slot]] = min(stream.short[waiting.tenant[slot]], short)
    return False


def count_start(slot: int, leaf: int, asked: Ints, waiting: Waiting, tree: Tree, stream: Stream) -> int:
    """It begins. How it stands with its quota; see `Started.held`."""
    if stream.limited:
        begin(leaf, 1, waiting.gpu_ms[slot], tree)
    if not waiting.held[slot]:
        return 0
    admit(leaf, asked, tree, stream.burst)
    return 2 if stream.burst else 1


def next_open(queue: int, waiting: Waiting, stream: Stream, blocked_ms: Ints) -> int:
    """The next slot of the queue that is worth a try, or -1; the queue stands there afterwards."""
    at, end = stream.head[queue], stream.end[queue]
    while at < end:
        slot = stream.slots[at]
        if not is_open(slot, waiting, stream, blocked_ms):
            at = past_closed(at + 1, end, waiting, stream, blocked_ms)
            continue
        if not waiting.taken[slot] and not (waiting.held[slot] and stream.held_stop[queue]):
            stream.head[queue] = at
            return int(slot)
        at += 1
    stream.head[queue] = at
    return -1


def is_open(slot: int, waiting: Waiting, stream: Stream, blocked_ms: Ints) -> bool:
    """Neither short of what its tenant may begin, nor like one who was refused, nor blocked; or blocked, but
    to be asked again for its quota."""
    if stream.limited and waiting.gpu_ms[slot] >= stream.short[waiting.tenant[slot]]:
        return False
    kind = waiting.kind[slot]
    has_room = bool(waiting.limit_ms[slot] < blocked_ms[kind])
    if not stream.asks:
        return has_room
    at = waiting.tenant[slot] * len(blocked_ms) + kind
    if waiting.held[slot] and stream.refused[at] == ALIKE:
        return False
    return has_room or bool(stream.refused_before[at] > 0)


def licensed(kind: int, kinds: Kinds, cluster_free: Ints) -> bool:
    for name in range(len(cluster_free)):
        if kinds.cluster_need[kind, name] > cluster_free[name]:
            return False
    return True


def take(
    kind: int,
    node: int,
    end_ms: int,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    index: Index,
    special: Special,
    cluster_free: Ints,
    amounts: Ints,
) -> int:
    """Give the room out; returns the devices, and in `amounts` what the tenant is charged."""
    beside = stays(node, end_ms, special)
    devices = chosen_devices(kind, node, beside, nodes, kinds, layouts, index, special)
    dimensions = kinds.need.shape[1]
    for dimension in range(dimensions):
        need = kinds.need[kind, dimension]
        amounts[dimension] = need
        nodes.free[node, dimension] -= need
        if beside:
            special.extra[node, dimension] -= need
    for name in range(len(cluster_free)):
        amounts[dimensions + 1 + name] = kinds.cluster_need[kind, name]
        cluster_free[name] -= kinds.cluster_need[kind, name]
    layout, given = nodes.layout[node], 0
    for device in range(nodes.gpu_free.shape[1]):
        if (devices >> device) & 1:
            milli = kinds.device_need[kind, layout, device]
            nodes.gpu_free[node, device] -= milli
            given += milli
            if beside:
                special.extra_gpu[node, device] -= milli
    amounts[dimensions] = given
    nodes.gpu_sum[node] -= given
    nodes.tasks[node] += 1
    nodes.alone[node] += kinds.exclusive[kind]
    note_change(node, index)
    return devices


def chosen_devices(
    kind: int,
    node: int,
    beside: bool,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    index: Index,
    special: Special,
) -> int:
    if beside:
        both_free(node, nodes, special)
        return devices_for(kind, nodes.layout[node], special.scratch, kinds, layouts)
    if kinds.scorer[kind] == FRAGMENTATION:
        _, devices = fragment_gain(kind, node, nodes, kinds, layouts, index.mix_kind, index.mix_weight)
        return devices
    return devices_for(kind, nodes.layout[node], nodes.gpu_free[node], kinds, layouts)


def note_change(node: int, index: Index) -> None:
    index.log[index.length[0]] = node
    index.length[0] += 1


def write_down(slot: int, kind: int, node: int, devices: int, admission: int, started: Started) -> None:
    at = started.filled[0]
    started.slot[at] = slot
    started.kind[at] = kind
    started.held[at] = admission
    started.node[at] = node
    started.devices[at] = devices
    started.filled[0] = at + 1


def cures(node: int, nodes: Nodes, kinds: Kinds, blocked: Flags, cured: Flags) -> None:
    """Which of the blocked kinds have room on this node, which has more room than before?"""
    if not nodes.takes[node]:
        return
    for kind in range(len(blocked)):
        if blocked[kind] and not cured[kind] and kinds.suits[kind, nodes.kind[node]]:
            cured[kind] = has_room(
                kind,
                nodes.layout[node],
                nodes.free[node],
                nodes.gpu_free[node],
                nodes.tasks[node],
                nodes.alone[node],
                kinds,
            )
