"""The best set of victims so far: a row of five numbers, and what is asked of every set."""

import numpy as np

from tgpu.core.kernel.shapes import Flags, Ints, Small

BUDGET = 50_000
"""A good number of steps for one search on one node."""
BUDGETS_IN_ALL = 20
"""So many budgets may be spent in one call."""
TOO_MANY = 2**40
"""More tasks than there are, and more of a device than can be freed."""

# The best answer so far is a row of five numbers: tasks stopped, what is lost, node, units; and steps spent.
IN_TASKS = 0
IN_COST = 1
ON_NODE = 2
IN_UNITS = 3
STEPS = 4


def suffices(gpus: int, columns: int, lacks: Ints) -> bool:
    for column in range(columns + 1):
        if lacks[column] > 0:
            return False
    return devices_open(columns, lacks) >= gpus


def offer(
    node: int, taken: Flags, units: Small, weight: Small, price: Ints, answer: Ints, out_victims: Small
) -> None:
    """Makes the units taken the answer, if they are better than it."""
    size = 0
    tasks = 0
    cost = 0
    for at in range(len(taken)):
        if taken[at]:
            size, tasks, cost = size + 1, tasks + int(weight[at]), cost + int(price[at])
    if size == 0 or tasks > answer[IN_TASKS]:
        return
    if tasks == answer[IN_TASKS] and (
        cost > answer[IN_COST] or (cost == answer[IN_COST] and node > answer[ON_NODE])
    ):
        return
    answer[IN_TASKS], answer[IN_COST], answer[ON_NODE], answer[IN_UNITS] = tasks, cost, node, size
    out_victims[:size] = np.sort(units[taken])


def devices_open(columns: int, short: Ints) -> int:
    count = 0
    for column in range(columns + 1, len(short)):
        if short[column] <= 0:
            count += 1
    return count
