"""How few tasks could do on each node: below that number nobody need search."""

import numpy as np

from tgpu.core.kernel.shapes import Attempts, Flags, Ints, Kinds, Small
from tgpu.core.kernel.victim_answer import TOO_MANY


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
