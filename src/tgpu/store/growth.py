"""How many more tasks of a series its tenant's quota admits, and who of them was cancelled beforehand."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from tgpu.domain.index_set import IndexSet, Range
from tgpu.domain.job import JobSpec, Request
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Standing
from tgpu.store.book import Lineage, NoRoomError
from tgpu.store.demand import Demand


def as_many(
    tenants: Lineage, request: Request, most: int, priority_class: PriorityClass, *, known: bool = False
) -> tuple[int, Standing]:
    """Charges for as many of `most` tasks as there is room for; raises NoRoomError if not even one has any.
    `known`: their job was accepted before."""
    try:
        return most, tenants.accept([(request, most)], priority_class, known=known, apart=True)
    except NoRoomError:
        if most == 1:
            raise
    low, high = 1, most - 1
    standing = tenants.accept([(request, 1)], priority_class, known=known, apart=True)
    while low < high:
        middle = (low + high + 1) // 2
        tenants.withdraw([(request, low)], standing)
        try:
            standing = tenants.accept([(request, middle)], priority_class, known=known, apart=True)
            low = middle
        except NoRoomError:
            standing = tenants.accept([(request, low)], priority_class, known=known, apart=True)
            high = middle - 1
    return low, standing


def first_demands(spec: JobSpec) -> list[Demand]:
    """What must be admitted for a job to be taken at all: of a series one task."""
    if spec.series is None:
        return [(group.request, group.tasks) for group in spec.groups]
    return [(group.request, 1) for group in spec.groups]


def same_but_at_once(before: JobSpec, after: JobSpec) -> bool:
    """Whether nothing differs but how many tasks of a series are live at once, of which no charge knows."""
    return before.series is not None and replace(after, series=before.series) == before


class Skipped(msgspec.Struct, frozen=True):
    """Positions of a series that are cancelled before they have rows, and who asked for it."""

    wishes: tuple[tuple[str, tuple[Range, ...]], ...] = ()
    counted: int = 0
    """How many that have no rows yet its job counts as cancelled already."""

    def and_these(self, by: str, positions: IndexSet) -> "Skipped":
        """What somebody asks for piece by piece becomes one wish, and what was asked for before none, so that
        it stays short."""
        known = self.marks(positions.highest + 1)
        if all(0 not in known[first : last + 1 : step] for first, last, step in positions.ranges):
            return self
        for at, (who, ranges) in enumerate(self.wishes):
            if who == by and (both := _joined(ranges, positions.ranges)) is not None:
                return Skipped((*self.wishes[:at], (by, both), *self.wishes[at + 1 :]), self.counted)
        return Skipped((*self.wishes, (by, positions.ranges)), self.counted)

    def marks(self, total: int) -> bytearray:
        """A byte for each of the first so many positions, 1 where somebody cancelled it: of a million of them
        a few are found, or all counted, without looking at each."""
        found = bytearray(total)
        for _, ranges in self.wishes:
            for first, last, step in ranges:
                reach = range(first, min(last + 1, total), step)
                found[first : reach.stop : step] = b"\1" * len(reach)
        return found

    def number_between(self, born: int, total: int) -> int:
        """How many from the one position on, before the other."""
        return self.marks(total).count(1, born) if self.wishes else 0

    @property
    def by(self) -> str:
        """Who asked last."""
        return self.wishes[-1][0]

    def sets(self) -> list[tuple[str, IndexSet]]:
        return [(by, IndexSet(ranges)) for by, ranges in self.wishes]


def _joined(some: tuple[Range, ...], more: tuple[Range, ...]) -> tuple[Range, ...] | None:
    """None: they overlap."""
    found: list[Range] = []
    for first, last, step in sorted((*some, *more)):
        before = found[-1] if found else None
        if before is not None and first <= before[1]:
            return None
        if before is not None and first == before[1] + 1 and step == before[2] == 1:
            found[-1] = (before[0], last, 1)
        else:
            found.append((first, last, step))
    return tuple(found)


NOBODY = Skipped()
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Skipped)


def skipped_of(text: str | None) -> Skipped:
    return NOBODY if text is None else _decoder.decode(text)


def text_of(skipped: Skipped) -> str:
    return _encoder.encode(skipped).decode()


def who_passed_over(wishes: Sequence[tuple[str, IndexSet]], position: int) -> str | None:
    return next((by for by, positions in wishes if position in positions), None)


def next_ones(skipped: Skipped, born: int, total: int, most: int, most_skipped: int) -> list[str | None]:
    """For each position from `born` on who cancelled it, if somebody did, until so many are found that
    nobody did."""
    found: list[str | None] = []
    waiting = passed = 0
    wishes = skipped.sets()
    for position in range(born, total):
        by = who_passed_over(wishes, position)
        if by is None:
            if waiting == most:
                break
            waiting += 1
        elif passed == most_skipped:
            break
        else:
            passed += 1
        found.append(by)
    return found
