"""When could a task start, and where, if everybody ends at the estimated end?"""

import numpy as np

from tgpu.core.kernel.room import devices_for, has_room, may_be_on
from tgpu.core.kernel.shapes import NEVER, NOWHERE, Attempts, Flags, Ints, Kinds, Layouts, Nodes, Small


def earliest_start(
    kind: int,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    attempts: Attempts,
    reserved: Ints,
    reserved_gpu: Small,
    reserved_any: Flags,
    reserved_tasks: Small,
    reserved_alone: Flags,
    opens_ms: Ints,
    now_ms: int,
) -> tuple[int, int, int]:
    """(node, moment, devices) of one task; (-1, NEVER, 0) if no node could ever take it.

    `reserved*` has one row per node: what the reservations made so far hold there, and so what is not free at
    any moment. `opens_ms` is when the node may be used at all.
    """
    large_enough = nodes_large_enough(kind, nodes, kinds)
    free = np.empty(nodes.free.shape[1], np.int64)
    gpu = np.empty(nodes.gpu_free.shape[1], np.int32)
    best, best_at = NOWHERE, NEVER
    for node in range(len(nodes.takes)):
        opens = max(now_ms, int(opens_ms[node]))
        if opens >= best_at or not large_enough[node]:
            continue
        if reserved_alone[node] or (reserved_tasks[node] > 0 and kinds.exclusive[kind]):
            continue
        keep_free_now(node, nodes, reserved, reserved_gpu, reserved_any, free, gpu)
        at = first_moment(kind, node, opens, best_at, nodes, kinds, attempts, free, gpu)
        if at < best_at:
            best, best_at = node, at
        if best_at <= now_ms:
            break  # nobody can be earlier, and of equals the first counts
    if best == NOWHERE:
        return NOWHERE, NEVER, 0
    room_at(best, best_at, nodes, kinds, attempts, free, gpu)
    take_reserved(best, reserved, reserved_gpu, free, gpu)
    return best, best_at, devices_for(kind, int(nodes.layout[best]), gpu, kinds, layouts)


def first_moment(
    kind: int,
    node: int,
    opens_ms: int,
    before_ms: int,
    nodes: Nodes,
    kinds: Kinds,
    attempts: Attempts,
    free: Ints,
    gpu: Small,
) -> int:
    """The first moment from `opens_ms` on at which there is room; NEVER if that is not before `before_ms`.

    `free` and `gpu` are what is free now, and change as attempts end.
    """
    row, last = int(attempts.begin[node]), int(attempts.begin[node + 1])
    tasks, alone = int(nodes.tasks[node]), int(nodes.alone[node])
    layout = int(nodes.layout[node])
    at = opens_ms
    while at < before_ms:
        while row < last and attempts.end_ms[row] <= at:
            give_back(row, kinds, attempts, free, gpu)
            tasks -= 1
            alone -= int(kinds.exclusive[attempts.kind[row]])
            row += 1
        if has_room(kind, layout, free, gpu, tasks, alone > 0, kinds):
            return at
        at = int(attempts.end_ms[row]) if row < last else NEVER
    return NEVER


def room_at(
    node: int, at_ms: int, nodes: Nodes, kinds: Kinds, attempts: Attempts, out_free: Ints, out_gpu: Small
) -> int:
    """Writes what is free on the node once all that end by `at_ms` have ended; how many tasks are left."""
    out_free[:] = nodes.free[node]
    out_gpu[:] = nodes.gpu_free[node]
    tasks = int(nodes.tasks[node])
    for row in range(attempts.begin[node], attempts.begin[node + 1]):
        if attempts.end_ms[row] > at_ms:
            break
        give_back(row, kinds, attempts, out_free, out_gpu)
        tasks -= 1
    return tasks


def give_back(row: int, kinds: Kinds, attempts: Attempts, free: Ints, gpu: Small) -> None:
    kind = attempts.kind[row]
    for column in range(len(free)):
        free[column] += kinds.need[kind, column]
    held = int(attempts.devices[row])
    device = 0
    while held > 0:
        if held & 1:
            gpu[device] += attempts.milli[row]
        held >>= 1
        device += 1


def keep_free_now(
    node: int,
    nodes: Nodes,
    reserved: Ints,
    reserved_gpu: Small,
    reserved_any: Flags,
    free: Ints,
    gpu: Small,
) -> None:
    for column in range(len(free)):
        free[column] = nodes.free[node, column]
    for device in range(len(gpu)):
        gpu[device] = nodes.gpu_free[node, device]
    if reserved_any[node]:
        take_reserved(node, reserved, reserved_gpu, free, gpu)


def take_reserved(node: int, reserved: Ints, reserved_gpu: Small, free: Ints, gpu: Small) -> None:
    for column in range(len(free)):
        free[column] -= reserved[node, column]
    for device in range(len(gpu)):
        gpu[device] -= reserved_gpu[node, device]


def nodes_large_enough(kind: int, nodes: Nodes, kinds: Kinds) -> Flags:
    """[N] does the node take tasks, suit, and have so much when it is empty?"""
    need, suits = kinds.need[kind], kinds.suits[kind]
    takes, kind_of, layout_of, capacity = nodes.takes, nodes.kind, nodes.layout, nodes.capacity
    enough = layouts_with_enough(kind, kinds)
    found = np.zeros(len(takes), np.bool_)
    for node in range(len(takes)):
        if takes[node] and suits[kind_of[node]] and enough[layout_of[node]] and may_be_on(kind, node, kinds):
            fits = True
            for column in range(len(need)):
                fits &= need[column] <= capacity[node, column]
            found[node] = fits
    return found


def layouts_with_enough(kind: int, kinds: Kinds) -> Flags:
    """[L] are there so many devices that suit?"""
    needs = kinds.device_need[kind]
    enough = np.zeros(len(needs), np.bool_)
    for layout in range(len(needs)):
        count = 0
        for device in range(needs.shape[1]):
            if needs[layout, device] > 0:
                count += 1
        enough[layout] = count >= kinds.gpus[kind]
    return enough
