"""A set of victims without a search, where one would take too long: good, not always the best."""

import numpy as np

from tgpu.core.kernel.shapes import NOWHERE, Flags, Ints, Small
from tgpu.core.kernel.victim_answer import suffices


def greedy_set(gpus: int, columns: int, weight: Small, freed: Ints, short: Ints, taken: Flags) -> None:
    """Marks units that together are enough, none of them without need; see `find_victims`."""
    wanted = short.copy()
    aim_at_devices(gpus, columns, freed.sum(axis=0), wanted)
    taken[:] = False
    while wanted.max() > 0:
        at = most_useful(weight, freed, wanted, taken)
        taken[at] = True
        wanted -= freed[at]
    lacks = short.copy()
    for at in range(len(taken)):
        if taken[at]:
            lacks -= freed[at]
    for at in range(len(taken) - 1, -1, -1):  # the most expensive first
        if taken[at]:
            lacks += freed[at]
            taken[at] = not suffices(gpus, columns, lacks)
            if taken[at]:
                lacks -= freed[at]
    if not taken.any():
        taken[np.argmin(weight)] = True  # nothing was missing, but no unit at all is no answer


def aim_at_devices(gpus: int, columns: int, in_all: Ints, wanted: Ints) -> None:
    """Of the devices, ask only for those that lack least."""
    aim = np.zeros(len(wanted), np.bool_)
    for _ in range(gpus):
        best = NOWHERE
        for column in range(columns + 1, len(wanted)):
            possible = wanted[column] <= in_all[column] and not aim[column]
            if possible and (best == NOWHERE or wanted[column] < wanted[best]):
                best = column
        aim[best] = True
    for column in range(columns + 1, len(wanted)):
        if not aim[column]:
            wanted[column] = 0


def most_useful(weight: Small, freed: Ints, wanted: Ints, taken: Flags) -> int:
    """The unit that covers most of what is wanted per task stopped; of equals the cheapest."""
    best, best_use = NOWHERE, 0.0
    for at in range(len(taken)):
        if taken[at]:
            continue
        use = 0.0
        for column in range(len(wanted)):
            if wanted[column] > 0:
                use += min(freed[at, column], wanted[column]) / wanted[column]
        use /= weight[at]
        if use > best_use:
            best, best_use = at, use
    return best
