"""Whether quotas have room for a held unit, and what of it is kept for those who were refused before it."""

from tgpu.core.kernel.shapes import NOWHERE, Ints, Tree

HOURS = 1
"""It takes too many GPU-hours: one of its kind that takes fewer may have room, or something kept for it."""
ALIKE = 2
"""It lacks what everybody of its tenant and kind lacks."""


def refuse(row: int, tenant: int, asked: Ints, tasks: int, gpu_ms: int, tree: Tree, promised: Ints) -> int:
    """0 if all quotas from here to the root have room for it. Else what it asks for is kept for it from now
    on, unless no end of others would make room for it."""
    lacks, highest = lacking(row, tenant, asked, tasks, gpu_ms, tree, promised)
    if lacks == 0:
        return 0
    beyond = out_of_reach(row, asked, tasks, gpu_ms, tree)
    if beyond == 0:
        keep(row, highest, tenant, asked, tasks, gpu_ms, tree, promised)
    return HOURS if beyond == HOURS else lacks


def lacking(
    row: int, tenant: int, asked: Ints, tasks: int, gpu_ms: int, tree: Tree, promised: Ints
) -> tuple[int, int]:
    """What it lacks (0: nothing, HOURS, ALIKE), and the last row on the way to the root that has no room for
    it, whatever is kept for others of its own tenant."""
    lacks, highest = 0, NOWHERE
    while row >= 0:
        for column in range(len(asked) + 2):
            limit, used, need = account(row, column, asked, tasks, gpu_ms, tree)
            if limit < 0 or need == 0:
                continue
            from_own, from_all = promised[tenant, column], tree.promised[row, column]
            if used + from_all + need > limit:
                highest = row
            left = limit - used - max(from_own, from_all)
            if need > left:
                for_hours = column == len(asked) + 1 and left > 0
                lacks = max(lacks, HOURS if for_hours else ALIKE)
        row = tree.parent[row]
    return lacks, highest


def account(row: int, column: int, asked: Ints, tasks: int, gpu_ms: int, tree: Tree) -> tuple[int, int, int]:
    """(limit, what of it is used, what is asked for) of an amount, the tasks that run, or GPU-hours."""
    width = len(asked)
    if column < width:
        return tree.limit[row, column], tree.admitted[row, column], asked[column]
    at = column - width
    return tree.begin_limit[row, at], tree.begun[row, at], tasks if at == 0 else gpu_ms


def out_of_reach(row: int, asked: Ints, tasks: int, gpu_ms: int, tree: Tree) -> int:
    """0 if it would have room if everybody else ended; else what there is not enough of even then. GPU-hours
    that are spent come back with the next period: whoever waits for that is not waited for."""
    beyond = 0
    while row >= 0:
        for column in range(len(asked) + 2):
            limit, _, need = account(row, column, asked, tasks, gpu_ms, tree)
            if limit < 0 or need == 0:
                continue
            if column == len(asked) + 1:
                if tree.spent[row] + need > limit:
                    beyond = HOURS
            elif need > limit:
                return ALIKE
        row = tree.parent[row]
    return beyond


def keep(
    row: int,
    highest: int,
    tenant: int,
    asked: Ints,
    tasks: int,
    gpu_ms: int,
    tree: Tree,
    promised: Ints,
) -> None:
    """From its own tenant at all levels: else those who pass it at one could take what it needs at another.
    From everybody else up to the last level that has no room."""
    raise_to(tenant, asked, tasks, gpu_ms, promised)
    last = highest == NOWHERE
    while not last:
        raise_to(row, asked, tasks, gpu_ms, tree.promised)
        last = row == highest
        row = tree.parent[row]


def raise_to(row: int, asked: Ints, tasks: int, gpu_ms: int, kept: Ints) -> None:
    """So much is kept that each of those who wait has enough, not all of them together."""
    width = len(asked)
    for column in range(width):
        kept[row, column] = max(kept[row, column], asked[column])
    kept[row, width] = max(kept[row, width], tasks)
    kept[row, width + 1] = max(kept[row, width + 1], gpu_ms)
