"""The cheapest set of just so many tasks on one node, by branch and bound."""

import numpy as np

from tgpu.core.kernel.shapes import NEVER, Flags, Ints, Small
from tgpu.core.kernel.victim_answer import STEPS, TOO_MANY
from tgpu.core.kernel.victim_bounds import fewest_more, times_needed


def branch_and_bound(
    tasks: int,
    gpus: int,
    columns: int,
    units: Small,
    weight: Small,
    price: Ints,
    freed: Ints,
    short: Ints,
    allowed: int,
    limit: int,
    best: Flags,
    answer: Ints,
) -> int:
    """Marks the cheapest set of just so many tasks that costs less than `limit`.

    Returns how many tasks to search for next, if there is none; -1 if the steps did not suffice.
    """
    count = len(units)
    rest, most = what_follows(count, freed, weight)
    touched, heaviest = most_touched(columns, freed), int(weight.max())
    taken, stack = np.zeros(count, np.bool_), np.empty(count, np.int64)
    lacks, efforts = short.copy(), np.empty(max(1, gpus), np.int64)
    found, best_cost, raised = False, limit - 1, TOO_MANY
    at, depth, used, cost = 0, 0, 0, 0
    for _ in range(allowed):
        answer[STEPS] += 1
        left, back = tasks - used, True
        more = fewest_more(at, gpus, columns, lacks, rest, most, touched, efforts)
        if more > left:
            raised = min(raised, used + more)
        elif left == 0:
            if could_be_best(cost, count, found, best_cost, taken, best, units):
                found, best_cost = True, cost
                best[:] = taken
        elif could_be_best(
            cost + least_more(at, left, heaviest, price), at, found, best_cost, taken, best, units
        ):
            back = False
            if weight[at] > left:
                raised = min(raised, used + int(weight[at]))
            else:
                lacks -= freed[at]
                taken[at], stack[depth] = True, at
                depth, used, cost = depth + 1, used + int(weight[at]), cost + int(price[at])
        if back:
            if depth == 0:
                return raised
            depth -= 1
            at = int(stack[depth])
            lacks += freed[at]
            taken[at] = False
            used, cost = used - int(weight[at]), cost - int(price[at])
        at += 1
    return -1


def least_more(at: int, left: int, heaviest: int, price: Ints) -> int:
    """The cheapest way to as many units from here on as so many tasks take at least."""
    wanted = times_needed(left, heaviest)
    if at + wanted > len(price):
        return NEVER
    bill = 0
    for later in range(at, at + wanted):
        bill += int(price[later])
    return bill


def could_be_best(
    cost: int, at: int, found: bool, best_cost: int, taken: Flags, best: Flags, units: Small
) -> bool:
    """Could the units taken, with some of those from `at` on, be better than the best found?"""
    if cost != best_cost or not found:
        return cost <= best_cost
    # Of sets that cost the same the one counts that has the first unit of those which only one of them has.
    mine, others = TOO_MANY, TOO_MANY
    for position in range(len(units)):
        if best[position] and not taken[position] and position < at:
            others = min(others, int(units[position]))
        elif not best[position] and (taken[position] or position >= at):
            mine = min(mine, int(units[position]))
    return mine < others


def what_follows(count: int, freed: Ints, weight: Small) -> tuple[Ints, Ints]:
    """[count + 1, …] what all units from here on free together, and the most any of them frees per task."""
    rest = np.zeros((count + 1, freed.shape[1]), np.int64)
    most = np.zeros((count + 1, freed.shape[1]), np.int64)
    for at in range(count - 1, -1, -1):
        for column in range(freed.shape[1]):
            rest[at, column] = rest[at + 1, column] + freed[at, column]
            per_task = freed[at, column]
            if weight[at] > 1:
                per_task = -(-per_task // weight[at])
            most[at, column] = max(most[at + 1, column], per_task)
    return rest, most


def most_touched(columns: int, freed: Ints) -> int:
    """The most devices that one unit holds here."""
    touched = 0
    for at in range(len(freed)):
        devices = 0
        for column in range(columns + 1, freed.shape[1]):
            if freed[at, column] > 0:
                devices += 1
        touched = max(touched, devices)
    return touched
