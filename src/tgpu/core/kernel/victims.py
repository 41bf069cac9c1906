"""Whom to stop so that one task can start: the fewest tasks, then the least lost.

What is missing on a node is one row of numbers, `lacking`: the columns of `D`, then how many tasks must leave
(for a task that wants the node alone, or to join one who has it alone), then one column per device. What a
unit frees there is a row of the same form, and stopping the unit takes it off. There is room once no column
before the devices is positive and as many devices as are needed have come down to zero.

The search goes by the number of tasks stopped, on all nodes at once: for each node a number is known below
which there is no answer, and a search for just so many either finds the cheapest set or raises that number.
"""

import numpy as np

from tgpu.core.kernel.earliest import nodes_large_enough
from tgpu.core.kernel.shapes import NEVER, NOWHERE, Attempts, Flags, Ints, Kinds, Nodes, Small

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


def find_victims(
    kind: int,
    rank: int,
    nodes: Nodes,
    kinds: Kinds,
    attempts: Attempts,
    unit_tasks: Small,
    unit_cost: Ints,
    unit_stoppable: Flags,
    reserved: Ints,
    reserved_gpu: Small,
    reserved_any: Flags,
    reserved_alone: Flags,
    budget: int,
    out_victims: Small,
) -> tuple[int, int]:
    """(node, how many units) to stop for one task whose class has this rank; (-1, 0) if that cannot help.

    The units are written to `out_victims`, in order; it must be as long as any node has attempts. Of all
    sets that are not empty: the fewest tasks, then the least cost, then the first node, then the first units.
    `unit_tasks` counts a unit's tasks everywhere, `unit_cost` what stopping all of them loses; all attempts
    of a unit have one rank.

    Exact, unless a search for some number of tasks on one node takes more than `budget` steps, or all
    together take `BUDGETS_IN_ALL` times as many. Such a node is then represented by the cheapest set with so
    few tasks found by then, or else by a greedy one: the unit that covers most of what is missing per task
    stopped, again and again, and in the end without those that turned out not to be needed.
    """
    may_stop = rows_to_stop(rank, attempts, unit_stoppable)
    open_to = nodes_open_to(kind, nodes, kinds, reserved_any, reserved_alone)
    lacking = lacking_per_node(kind, open_to, nodes, kinds, reserved, reserved_gpu, reserved_any)
    gpus = int(kinds.gpus[kind])
    node = single_victim(
        gpus, open_to, may_stop, lacking, kinds, attempts, unit_tasks, unit_cost, out_victims
    )
    if node != NOWHERE:
        return node, 1
    fewest = fewest_per_node(gpus, open_to, may_stop, lacking, kinds, attempts, unit_tasks)
    answer = np.array([TOO_MANY, NEVER, NOWHERE, 0, 0], np.int64)
    search_by_tasks(
        gpus, may_stop, lacking, fewest, kinds, attempts, unit_tasks, unit_cost, budget, answer, out_victims
    )
    return int(answer[ON_NODE]), int(answer[IN_UNITS])


def rows_to_stop(rank: int, attempts: Attempts, unit_stoppable: Flags) -> Flags:
    """[A]"""
    may_stop = np.zeros(len(attempts.rank), np.bool_)
    for row in range(len(may_stop)):
        may_stop[row] = attempts.rank[row] > rank and unit_stoppable[attempts.unit[row]]
    return may_stop


def nodes_open_to(kind: int, nodes: Nodes, kinds: Kinds, reserved_any: Flags, reserved_alone: Flags) -> Flags:
    """[N] could it run there if nobody else did?"""
    open_to = nodes_large_enough(kind, nodes, kinds)
    exclusive = kinds.exclusive[kind]
    for node in range(len(open_to)):
        if reserved_alone[node] or (exclusive and reserved_any[node]):
            open_to[node] = False
    return open_to


def lacking_per_node(
    kind: int,
    open_to: Flags,
    nodes: Nodes,
    kinds: Kinds,
    reserved: Ints,
    reserved_gpu: Small,
    reserved_any: Flags,
) -> Ints:
    """[N, D + 1 + G] what is missing; rows of nodes that are not open are not filled."""
    columns, devices = nodes.free.shape[1], nodes.gpu_free.shape[1]
    need, exclusive = kinds.need[kind], kinds.exclusive[kind]
    device_need = kinds.device_need[kind]
    lacking = np.empty((len(open_to), columns + 1 + devices), np.int64)
    for node in range(len(open_to)):
        if not open_to[node]:
            continue
        held = reserved_any[node]
        for column in range(columns):
            lacking[node, column] = 0  # who needs nothing is not kept out by a debt
            if need[column] > 0:
                taken = reserved[node, column] if held else 0
                lacking[node, column] = need[column] + taken - nodes.free[node, column]
        lacking[node, columns] = nodes.tasks[node] if exclusive or nodes.alone[node] else 0
        layout = nodes.layout[node]
        for device in range(devices):
            lacking[node, columns + 1 + device] = TOO_MANY
            if device_need[layout, device] > 0:
                taken = reserved_gpu[node, device] if held else 0
                short = device_need[layout, device] + taken - nodes.gpu_free[node, device]
                lacking[node, columns + 1 + device] = short
    return lacking


def single_victim(
    gpus: int,
    open_to: Flags,
    may_stop: Flags,
    lacking: Ints,
    kinds: Kinds,
    attempts: Attempts,
    unit_tasks: Small,
    unit_cost: Ints,
    out_victims: Small,
) -> int:
    """The node on which one task is enough, and cheapest; its unit is written down."""
    unit_of, begin, need, columns = attempts.unit, attempts.begin, kinds.need, kinds.need.shape[1]
    kind_of, held_by, milli_of = attempts.kind, attempts.devices, attempts.milli
    best, best_cost = NOWHERE, NEVER
    for node in range(len(open_to)):
        if not open_to[node] or lacking[node, columns] > 1:
            continue
        short = lacking[node]
        missing = gpus - devices_open(columns, short)
        for row in range(begin[node], begin[node + 1]):
            kind, held, milli = kind_of[row], held_by[row], milli_of[row]
            if not may_stop[row] or not one_suffices(gpus, missing, columns, short, need, kind, held, milli):
                continue
            unit = unit_of[row]
            cost = int(unit_cost[unit])
            better = cost < best_cost or (cost == best_cost and best == node and unit < out_victims[0])
            if better and unit_tasks[unit] == 1:
                best, best_cost = node, cost
                out_victims[0] = unit
    return best


def devices_open(columns: int, short: Ints) -> int:
    count = 0
    for column in range(columns + 1, len(short)):
        if short[column] <= 0:
            count += 1
    return count


def one_suffices(
    gpus: int, missing: int, columns: int, short: Ints, need: Ints, kind: int, held: int, milli: int
) -> bool:
    """Whether one attempt of the kind, with these devices, frees all that is short, and `missing` devices."""
    if (missing > 0 and held == 0) or (missing > 1 and held & (held - 1) == 0):
        return False  # it holds none, or only one
    for column in range(columns):
        if short[column] > need[kind, column]:
            return False
    if missing <= 0:
        return True
    count = 0
    for column in range(columns + 1, len(short)):
        if short[column] <= ((held >> (column - columns - 1)) & 1) * milli:
            count += 1
    return count >= gpus


def fewest_per_node(
    gpus: int,
    open_to: Flags,
    may_stop: Flags,
    lacking: Ints,
    kinds: Kinds,
    attempts: Attempts,
    unit_tasks: Small,
) -> Ints:
    """[N] with fewer tasks there is no answer (one is known not to do); TOO_MANY where there is none."""
    columns = kinds.need.shape[1]
    fewest = np.full(len(open_to), TOO_MANY, np.int64)
    rest, most = np.zeros((1, lacking.shape[1]), np.int64), np.zeros((1, lacking.shape[1]), np.int64)
    efforts = np.empty(max(1, gpus), np.int64)
    begin, unit_of, need = attempts.begin, attempts.unit, kinds.need
    kind_of, held_by, milli_of = attempts.kind, attempts.devices, attempts.milli
    for node in range(len(open_to)):
        if not open_to[node]:
            continue
        touched = tally(
            begin[node], begin[node + 1], may_stop, need, kind_of, held_by, milli_of, rest[0], most[0]
        )
        more = fewest_more(0, gpus, columns, lacking[node], rest, most, touched, efforts)
        if more < TOO_MANY and rest[0, columns] > 0:
            lightest = TOO_MANY
            for row in range(begin[node], begin[node + 1]):
                if may_stop[row]:
                    lightest = min(lightest, int(unit_tasks[unit_of[row]]))
            fewest[node] = max(2, lightest, more)
    return fewest


def tally(
    begin: int,
    end: int,
    may_stop: Flags,
    need: Ints,
    kind_of: Small,
    held_by: Ints,
    milli_of: Small,
    rest: Ints,
    most: Ints,
) -> int:
    """Writes what these rows free together, and the most that one frees; the most devices that one holds."""
    columns = need.shape[1]
    rest[:] = 0
    most[:] = 0
    touched = 0
    for row in range(begin, end):
        if not may_stop[row]:
            continue
        kind, held, milli = kind_of[row], held_by[row], milli_of[row]
        for column in range(columns):
            rest[column] += need[kind, column]
            most[column] = max(most[column], need[kind, column])
        rest[columns] += 1
        most[columns] = 1
        count = 0
        for column in range(columns + 1, len(rest)):
            holds = (held >> (column - columns - 1)) & 1
            rest[column] += holds * milli
            most[column] = max(most[column], holds * milli)
            count += holds
        touched = max(touched, count)
    return int(touched)


def fewest_more(
    at: int,
    gpus: int,
    columns: int,
    short: Ints,
    rest: Ints,
    most: Ints,
    touched: int,
    efforts: Ints,
) -> int:
    """At least so many more tasks must be stopped; TOO_MANY if even all from `at` on are not enough.

    `rest` is what all of them free, `most` the most that one frees of each per task stopped, `touched` the
    most devices that one of them holds; `efforts` is scratch.
    """
    fewest = 0
    for column in range(columns + 1):
        if short[column] > 0:
            if short[column] > rest[at, column]:
                return TOO_MANY
            fewest = max(fewest, times_needed(short[column], most[at, column]))
    if gpus == 0:
        return int(fewest)
    found = 0
    for column in range(columns + 1, len(short)):
        if short[column] <= rest[at, column]:
            found = keep_smallest(times_needed(short[column], most[at, column]), found, efforts)
    if found < gpus:
        return TOO_MANY
    # Each device takes its number of tasks, and each task stopped counts for at most `touched` devices.
    together = times_needed(efforts.sum(), max(1, touched))
    return int(max(fewest, efforts[gpus - 1], together))


def times_needed(amount: int, each: int) -> int:
    if amount <= 0:
        return 0
    if amount <= each:
        return 1  # the usual case, without a slow division
    return -(-amount // each)


def keep_smallest(value: int, count: int, kept: Ints) -> int:
    """Into a sorted row that holds only the smallest; how many it holds now."""
    if count == len(kept):
        if value >= kept[count - 1]:
            return count
        count -= 1
    at = count
    while at > 0 and kept[at - 1] > value:
        kept[at] = kept[at - 1]
        at -= 1
    kept[at] = value
    return count + 1


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
