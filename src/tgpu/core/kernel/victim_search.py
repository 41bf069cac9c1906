"""By the number of tasks stopped, on all nodes at once, until the first number that has an answer."""

import numpy as np

from tgpu.core.kernel.shapes import NEVER, Attempts, Flags, Ints, Kinds, Small
from tgpu.core.kernel.victim_answer import BUDGETS_IN_ALL, IN_COST, IN_TASKS, ON_NODE, STEPS, TOO_MANY, offer
from tgpu.core.kernel.victim_bounds import keep_smallest, times_needed
from tgpu.core.kernel.victim_branches import branch_and_bound
from tgpu.core.kernel.victim_greedy import greedy_set


def search_by_tasks(
    gpus: int,
    may_stop: Flags,
    lacking: Ints,
    fewest: Ints,
    kinds: Kinds,
    attempts: Attempts,
    unit_tasks: Small,
    unit_cost: Ints,
    budget: int,
    answer: Ints,
    out_victims: Small,
) -> None:
    """From the smallest number of tasks up, until one has an answer. `fewest` rises on the way."""
    begin = attempts.begin
    longest = int((begin[1:] - begin[:-1]).max()) if len(fewest) > 0 else 0
    units = np.empty(longest, np.int32)
    freed = np.empty((longest, lacking.shape[1]), np.int64)
    tasks = int(fewest.min()) if len(fewest) > 0 else TOO_MANY
    while tasks < TOO_MANY and tasks <= answer[IN_TASKS]:
        for node in range(len(fewest)):
            if fewest[node] > tasks:
                continue
            limit = cost_limit(node, tasks, answer)
            bill = least_bill(
                tasks, begin[node], begin[node + 1], may_stop, attempts.unit, unit_tasks, unit_cost
            )
            if bill >= limit:
                fewest[node] = TOO_MANY  # cannot have so many tasks, or costs too much in the last round
                continue
            count = units_by_cost(node, may_stop, attempts, unit_cost, units)
            gather_freed(node, count, may_stop, kinds, attempts, units, freed)
            allowed = min(budget, BUDGETS_IN_ALL * budget - int(answer[STEPS]))
            fewest[node] = search_node(
                node,
                tasks,
                gpus,
                kinds.need.shape[1],
                count,
                units,
                freed,
                lacking[node],
                unit_tasks,
                unit_cost,
                allowed,
                limit,
                answer,
                out_victims,
            )
        tasks = next_more_than(tasks, fewest)


def next_more_than(tasks: int, fewest: Ints) -> int:
    smallest = TOO_MANY
    for node in range(len(fewest)):
        if tasks < fewest[node] < smallest:
            smallest = int(fewest[node])
    return smallest


def cost_limit(node: int, tasks: int, answer: Ints) -> int:
    """A set of so many tasks on this node must cost less than this to be better than the answer."""
    if tasks < answer[IN_TASKS]:
        return NEVER
    return int(answer[IN_COST]) + (1 if node < answer[ON_NODE] else 0)


def units_by_cost(node: int, may_stop: Flags, attempts: Attempts, unit_cost: Ints, units: Small) -> int:
    """Writes the units that may be stopped there, each once, the cheapest first; how many they are."""
    count = 0
    for row in range(attempts.begin[node], attempts.begin[node + 1]):
        if not may_stop[row]:
            continue
        unit = attempts.unit[row]
        cost = unit_cost[unit]
        at = count
        while at > 0 and (
            unit_cost[units[at - 1]] > cost or (unit_cost[units[at - 1]] == cost and units[at - 1] > unit)
        ):
            at -= 1
        if at > 0 and units[at - 1] == unit:
            continue
        for later in range(count, at, -1):
            units[later] = units[later - 1]
        units[at] = unit
        count += 1
    return count


def least_bill(
    tasks: int, begin: int, end: int, may_stop: Flags, unit_of: Small, unit_tasks: Small, unit_cost: Ints
) -> int:
    """The cheapest of these rows, as few as could stand for so many tasks; NEVER if there are not so many."""
    heaviest, rows = 1, 0
    for row in range(begin, end):
        if may_stop[row]:
            heaviest = max(heaviest, int(unit_tasks[unit_of[row]]))
            rows += 1
    wanted = times_needed(tasks, heaviest)
    if wanted > rows:
        return NEVER
    cheapest = np.empty(wanted, np.int64)
    count = 0
    for row in range(begin, end):
        if may_stop[row]:
            count = keep_smallest(int(unit_cost[unit_of[row]]), count, cheapest)
    return int(cheapest.sum())


def gather_freed(
    node: int, count: int, may_stop: Flags, kinds: Kinds, attempts: Attempts, units: Small, freed: Ints
) -> None:
    """What each of the units frees on this node, all its attempts there together."""
    columns = kinds.need.shape[1]
    freed[:count] = 0
    for row in range(attempts.begin[node], attempts.begin[node + 1]):
        if not may_stop[row]:
            continue
        at = 0
        while units[at] != attempts.unit[row]:
            at += 1
        for column in range(columns):
            freed[at, column] += kinds.need[attempts.kind[row], column]
        freed[at, columns] += 1
        for device in range(freed.shape[1] - columns - 1):
            if (attempts.devices[row] >> device) & 1:
                freed[at, columns + 1 + device] += attempts.milli[row]


def search_node(
    node: int,
    tasks: int,
    gpus: int,
    columns: int,
    count: int,
    units: Small,
    freed: Ints,
    short: Ints,
    unit_tasks: Small,
    unit_cost: Ints,
    allowed: int,
    limit: int,
    answer: Ints,
    out_victims: Small,
) -> int:
    """Offers the cheapest set of just so many tasks that costs less than `limit`; the node's new `fewest`."""
    own = units[:count]
    weight, price = unit_tasks[own], unit_cost[own]
    best = np.zeros(count, np.bool_)
    raised = branch_and_bound(
        tasks, gpus, columns, own, weight, price, freed[:count], short, allowed, limit, best, answer
    )
    if raised < 0 and not best.any():
        greedy_set(gpus, columns, weight, freed[:count], short, best)
    if best.any():
        offer(node, best, own, weight, price, answer, out_victims)
        raised = TOO_MANY
    return raised
