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

    def has_room(self, kind: KindFacts, row: int, count: int) -> bool:
        """Whether this many such tasks may run there beyond that moment."""
        amounts, devices = self.extra.get(row, ([], 0))
        if not amounts or count * kind.gpus > devices:
            return False
        return all(amounts[column] >= count * amount for column, amount in kind.need)

    def take(self, kind: KindFacts, row: int, count: int) -> None:
        """They do: what they take is left to no other."""
        amounts, devices = self.extra[row]
        left = amounts.copy()
        for column, amount in kind.need:
            left[column] -= count * amount
        self.extra[row] = (left, devices - count * kind.gpus)


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
    if nodes.rows_for_gang(head, nodes.after(runs := nodes.all_runs(kind))) is None:
        return None  # the nodes are too few, even when all of them are empty
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
