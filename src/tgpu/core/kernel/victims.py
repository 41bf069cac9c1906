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
from tgpu.core.kernel.victim_answer import IN_UNITS, ON_NODE, TOO_MANY, devices_open
from tgpu.core.kernel.victim_bounds import fewest_per_node
from tgpu.core.kernel.victim_search import search_by_tasks


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
