"""Is there room for a task in this row of free amounts, and which devices would it get?"""

from tgpu.core.kernel.shapes import NEVER, NOWHERE, Ints, Kinds, Layouts, Small


def devices_for(kind: int, layout: int, gpu_free_row: Small, kinds: Kinds, layouts: Layouts) -> int:
    """One bit per device; 0 if none is needed, -1 if there are too few."""
    wanted = int(kinds.gpus[kind])
    if wanted == 0:
        return 0
    needs = kinds.device_need[kind, layout]
    if not kinds.whole[kind]:
        return tightest_device(needs, gpu_free_row)
    idle = idle_devices(needs, gpu_free_row, wanted)
    if idle == NOWHERE:
        return NOWHERE
    together = smallest_group(idle, wanted, layouts.island[layout])
    if together == NOWHERE:
        together = smallest_group(idle, wanted, layouts.numa[layout])
    if together == NOWHERE:
        together = first_devices(idle, wanted, len(needs))
    return together


def tightest_device(needs: Small, gpu_free_row: Small) -> int:
    best, least = NOWHERE, NEVER
    for device in range(len(needs)):
        left = int(gpu_free_row[device])
        if 0 < needs[device] <= left < least:
            best, least = 1 << device, left
    return best


def idle_devices(needs: Small, gpu_free_row: Small, wanted: int) -> int:
    """All that suit and are wholly free; -1 if these are too few."""
    idle = 0
    count = 0
    for device in range(len(needs)):
        if 0 < needs[device] <= gpu_free_row[device]:
            idle |= 1 << device
            count += 1
    return idle if count >= wanted else NOWHERE


def smallest_group(idle: int, wanted: int, group: Small) -> int:
    """The first devices of the group that has enough and the fewest; -1 if no group has enough."""
    best, best_size = NOWHERE, NEVER
    for first in range(len(group)):
        if group[first] < 0 or (idle >> first) & 1 == 0:
            continue
        mask = 0
        size = 0
        for device in range(len(group)):
            if group[device] == group[first] and (idle >> device) & 1:
                size += 1
                if size <= wanted:
                    mask |= 1 << device
        if wanted <= size < best_size:
            best, best_size = mask, size
    return best


def first_devices(idle: int, wanted: int, devices: int) -> int:
    mask = 0
    count = 0
    for device in range(devices):
        if (idle >> device) & 1 and count < wanted:
            mask |= 1 << device
            count += 1
    return mask


def has_room(
    kind: int,
    layout: int,
    free_row: Ints,
    gpu_free_row: Small,
    tasks: int,
    alone: bool,
    kinds: Kinds,
) -> bool:
    if alone or (tasks > 0 and kinds.exclusive[kind]):
        return False
    for column in range(len(free_row)):
        need = kinds.need[kind, column]
        if need > 0 and need > free_row[column]:  # who needs nothing is not kept out by a debt
            return False
    return enough_devices(kind, layout, gpu_free_row, kinds)


def enough_devices(kind: int, layout: int, gpu_free_row: Small, kinds: Kinds) -> bool:
    """Whether `devices_for` would find any, without choosing."""
    missing = kinds.gpus[kind]
    if missing == 0:
        return True
    for device in range(len(gpu_free_row)):
        if 0 < kinds.device_need[kind, layout, device] <= gpu_free_row[device]:
            missing -= 1
            if missing == 0:
                return True
    return False


def may_be_on(kind: int, node: int, kinds: Kinds) -> bool:
    """Whether the kind is bound to this node, or to none."""
    pinned = kinds.pinned[kind]
    if pinned == NOWHERE:
        return True
    return bool(pinned == node)
