"""Reservations in a scenario: room that is kept for the first unit of a class that does not fit."""

from dataclasses import dataclass

from tgpu.core.estimates.model import KindFacts, Unit
from tgpu.core.estimates.trial_nodes import TrialNodes


@dataclass(slots=True)
class Reserved:
    rows: frozenset[int]
    at: float
    extra: dict[int, tuple[list[int], int]]
    """By row: amounts and devices that are left beside it at that moment."""

    def takes(self, kind: KindFacts, row: int) -> bool:
        """Whether such a task may run there beyond that moment; if so, it takes its part."""
        amounts, devices = self.extra.get(row, ([], 0))
        if not amounts or kind.gpus > devices:
            return False
        if any(amounts[column] < amount for column, amount in kind.need):
            return False
        left = amounts.copy()
        for column, amount in kind.need:
            left[column] -= amount
        self.extra[row] = (left, devices - kind.gpus)
        return True


def reserve(nodes: TrialNodes, head: Unit, kind: KindFacts, now: float) -> Reserved | None:
    """Where it fits first if all tasks there run into their limits."""
    if head.count > 1:
        return _reserve_gang(nodes, head, kind, now)
    best: tuple[float, int, list[int], list[int]] | None = None
    for row in nodes.emptiest(kind):
        found = nodes.first_fit(kind, row, now)
        if found is not None and (best is None or (found[0], row) < best[:2]):
            best = found[0], row, found[1], found[2]
    if best is None:
        return None
    at, row, left, devices = best
    for column, amount in kind.need:
        left[column] -= amount
    spare = nodes.idle(kind, row, devices) - kind.gpus if kind.gpus else len(devices)
    return Reserved(frozenset((row,)), at, {row: (left, spare)})


def _reserve_gang(nodes: TrialNodes, head: Unit, kind: KindFacts, now: float) -> Reserved | None:
    runs = [run for row in nodes.able(kind) for run in nodes.runs(row).values()]
    runs.sort(key=lambda each: each.limit_end)
    low, high = 0, len(runs)
    best: tuple[float, list[int]] | None = None
    while low <= high:
        middle = (low + high) // 2
        rows = nodes.rows_for_gang(head, nodes.after(runs[:middle]))
        if rows is None:
            low = middle + 1
        else:
            best = (runs[middle - 1].limit_end if middle else now), rows
            high = middle - 1
    return None if best is None else Reserved(frozenset(best[1]), max(now, best[0]), {})
