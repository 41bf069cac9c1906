"""Fragmentation: how much of a node's free GPU capacity would the usual requests find unusable?

The *fragment* of a node for one class of requests is all its free thousandths, if the class cannot run there
now or needs no GPU; else those on devices that the class cannot use (they do not suit, or have less left than
it takes of one). The fragment of the node is the mean over the frozen mix of recent requests, by weight:
Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).

A placement that takes x thousandths makes the fragment smaller by x for every class, less what becomes
unusable for the class; so only classes that can run there now have to be looked at.
"""

import numpy as np

from tgpu.core.kernel.room import devices_for, has_room, may_be_on
from tgpu.core.kernel.shapes import NOWHERE, Floats, Kinds, Layouts, Nodes, Small

NOT_NOW = 0
"""How a class of requests stands to a node, devices apart: it cannot run there even now, …"""
NOT_AFTER = 1
"""… it can, but no longer once the task has come, …"""
STILL = 2
"""… or it can in any case."""


def fragment_gain(
    kind: int,
    node: int,
    nodes: Nodes,
    kinds: Kinds,
    layouts: Layouts,
    mix_kind: Small,
    mix_weight: Floats,
) -> tuple[float, int]:
    """How much smaller the fragment gets if a task of this kind comes, and on which devices.

    A part of a device goes where that is most (equal: the tightest, then the lower position), whole devices
    come as ever. (0, -1) if there is no room.
    """
    layout = int(nodes.layout[node])
    gpu_free = nodes.gpu_free[node]
    tasks, alone = int(nodes.tasks[node]), bool(nodes.alone[node])
    if not has_room(kind, layout, nodes.free[node], gpu_free, tasks, alone, kinds):
        return 0.0, NOWHERE
    if kinds.gpus[kind] > 0 and not kinds.whole[kind]:
        lost = np.zeros(len(gpu_free), np.float64)
        common, weights = lost_to_part(kind, node, nodes, kinds, mix_kind, mix_weight, lost)
        return best_part(kinds.device_need[kind, layout], gpu_free, lost, common, weights)
    mask = devices_for(kind, layout, gpu_free, kinds, layouts)
    return gain_of_devices(kind, node, mask, nodes, kinds, mix_kind, mix_weight), mask


def best_part(
    needs: Small, gpu_free: Small, lost: Floats, common: float, weights: float
) -> tuple[float, int]:
    best, best_gain = NOWHERE, 0.0
    for device in range(len(needs)):
        if not 0 < needs[device] <= gpu_free[device]:
            continue
        gain = needs[device] * weights - lost[device] - common
        if best == NOWHERE or gain > best_gain or (gain == best_gain and gpu_free[device] < gpu_free[best]):
            best, best_gain = device, gain
    return float(best_gain), 1 << best


def lost_to_part(
    kind: int,
    node: int,
    nodes: Nodes,
    kinds: Kinds,
    mix_kind: Small,
    mix_weight: Floats,
    lost: Floats,
) -> tuple[float, float]:
    """Writes what the mix loses if the part comes from each device.

    Returns what it loses wherever the part comes from, and the sum of all weights.
    """
    layout, gpu_free = nodes.layout[node], nodes.gpu_free[node]
    gpus, device_need = kinds.gpus, kinds.device_need
    standing = outlooks(kind, node, nodes, kinds, mix_kind)
    common, weights = 0.0, 0.0
    for at in range(len(mix_kind)):
        other, weight = mix_kind[at], mix_weight[at]
        weights += weight
        if standing[at] == NOT_NOW:
            continue
        usable, count = usable_parts(other, layout, gpu_free, device_need)
        spare = count - gpus[other]
        if spare < 0:
            continue
        if standing[at] == NOT_AFTER:
            common += weight * usable
            continue
        for device in range(len(gpu_free)):
            left, need = gpu_free[device], device_need[other, layout, device]
            taken = device_need[kind, layout, device]
            gone = taken if left - taken >= need else (left if spare > 0 else usable)
            lost[device] += weight * (gone if (need > 0) & (left >= need) else 0)
    return common, weights


def gain_of_devices(
    kind: int, node: int, mask: int, nodes: Nodes, kinds: Kinds, mix_kind: Small, mix_weight: Floats
) -> float:
    """As `fragment_gain`, for whole devices (or none)."""
    layout, gpu_free = nodes.layout[node], nodes.gpu_free[node]
    gpus, device_need = kinds.gpus, kinds.device_need
    standing = outlooks(kind, node, nodes, kinds, mix_kind)
    after = gpu_free.copy()
    taken = 0
    for device in range(len(gpu_free)):
        if (mask >> device) & 1:
            taken += gpu_free[device]
            after[device] = 0
    gain = 0.0
    for at in range(len(mix_kind)):
        other, weight = mix_kind[at], mix_weight[at]
        gain += weight * taken
        if standing[at] == NOT_NOW or (standing[at] == STILL and mask == 0):
            continue
        usable, count = usable_parts(other, layout, gpu_free, device_need)
        if count < gpus[other]:
            continue
        left = 0
        if standing[at] == STILL:
            left, count = usable_parts(other, layout, after, device_need)
            left = left if count >= gpus[other] else 0
        gain -= weight * (usable - left)
    return gain


def outlooks(kind: int, node: int, nodes: Nodes, kinds: Kinds, mix_kind: Small) -> Small:
    """How each class of the mix stands to the node, before and after a task of the kind comes.

    A class without GPUs can use none of them, and so loses none: NOT_NOW.
    """
    free, tasks, node_kind = nodes.free[node], nodes.tasks[node], nodes.kind[node]
    need, gpus, suits, exclusive = kinds.need, kinds.gpus, kinds.suits, kinds.exclusive
    found = np.zeros(len(mix_kind), np.int32)  # NOT_NOW
    for at in range(len(mix_kind)):
        other = mix_kind[at]
        if gpus[other] == 0 or not suits[other, node_kind] or (exclusive[other] and tasks > 0):
            continue
        if not may_be_on(other, node, kinds):
            continue
        standing = NOT_AFTER if exclusive[other] or exclusive[kind] else STILL
        for column in range(len(free)):
            spare = free[column] - need[other, column]
            if spare < need[kind, column] and need[other, column] > 0:
                standing = NOT_AFTER
                if spare < 0:
                    standing = NOT_NOW
                    break
        found[at] = standing
    return found


def usable_parts(other: int, layout: int, gpu_free: Small, device_need: Small) -> tuple[int, int]:
    """(thousandths, devices) that the class can use. Without branches: this is where the time goes."""
    total = 0
    count = 0
    for device in range(len(gpu_free)):
        need, left = device_need[other, layout, device], gpu_free[device]
        usable = int(need > 0) & int(left >= need)
        total += usable * left
        count += usable
    return total, count
