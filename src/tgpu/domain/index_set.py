"""Sets of indices as people write them: `0-999`, `1,3,5-9:2`, and how many of them at once, `%50`."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import eq

from tgpu.domain.quantities import BadQuantityError

MAX_INDICES = 1_000_000
MAX_INDEX = 2**31 - 2
_MAX_TEXT = 64 * 1024
_FORM = "such as 0-999, 1,3,5-9:2 or 0-999%50"

Range = tuple[int, int, int]
"""The first, the last, and the step between them."""


class NoSuchIndexError(LookupError):
    def __init__(self, index: int) -> None:
        super().__init__(f"there is no index {index}")
        self.index = index


@dataclass(frozen=True)
class IndexSet:
    """Stretches that lie one after the other. Positions are counted from 0, in the order of indices."""

    ranges: tuple[Range, ...]

    @classmethod
    def first(cls, count: int) -> "IndexSet":
        """From 0 on."""
        return cls(((0, count - 1, 1),))

    @classmethod
    def of(cls, indices: Iterable[int]) -> "IndexSet":
        """Of any, each counted once."""
        found: list[Range] = []
        for index in sorted(set(indices)):
            if found and found[-1][1] == index - 1:
                found[-1] = (found[-1][0], index, 1)
            else:
                found.append((index, index, 1))
        return cls(tuple(found))

    @cached_property
    def _starts(self) -> list[int]:
        """The position at which each stretch begins, and at the end how many there are."""
        return list(accumulate((len(range(a, b + 1, step)) for a, b, step in self.ranges), initial=0))

    @property
    def count(self) -> int:
        return self._starts[-1]

    @property
    def lowest(self) -> int:
        return self.ranges[0][0]

    @property
    def highest(self) -> int:
        first, last, step = self.ranges[-1]
        return last - (last - first) % step

    @property
    def step(self) -> int:
        """Between two of them; of several stretches 1."""
        return self.ranges[0][2] if len(self.ranges) == 1 else 1

    def at(self, position: int) -> int:
        if not 0 <= position < self.count:
            raise IndexError(f"there is no position {position} among {self.count}")
        which = bisect_right(self._starts, position) - 1
        first, _, step = self.ranges[which]
        return first + step * (position - self._starts[which])

    def position_of(self, index: int) -> int | None:
        which = bisect_right(self.ranges, (index, MAX_INDEX + 1, 0)) - 1
        if which < 0:
            return None
        first, last, step = self.ranges[which]
        if index > last or (index - first) % step:
            return None
        return self._starts[which] + (index - first) // step

    def positions_of(self, wanted: "IndexSet") -> "IndexSet":
        """By stretches, however long these are. Raises NoSuchIndexError for the first that is missing."""
        found: list[Range] = []
        for begin, end, by in wanted.ranges:
            at = begin
            while at <= end:
                position = self.position_of(at)
                if position is None:
                    raise NoSuchIndexError(at)
                _, last, step = self.ranges[bisect_right(self._starts, position) - 1]
                more = (min(end, last) - at) // by
                if more and by % step:
                    raise NoSuchIndexError(at + by)
                found.append((position, position + more * (by // step), max(1, by // step)))
                at += (more + 1) * by
        return IndexSet(tuple(found))

    def next_from(self, index: int) -> int | None:
        """The first that is not before this."""
        which = max(0, bisect_right(self.ranges, (index, MAX_INDEX + 1, 0)) - 1)
        for first, last, step in self.ranges[which : which + 2]:
            if index <= last:
                return max(first, index + (first - index) % step)
        return None

    def is_same(self, other: "IndexSet") -> bool:
        """However they are written: `0-4:2` is `0,2,4`."""
        if self.ranges == other.ranges:
            return True
        ends = (self.count, self.lowest, self.highest) == (other.count, other.lowest, other.highest)
        return ends and all(map(eq, self, other))

    def __contains__(self, index: int) -> bool:
        return self.position_of(index) is not None

    def __iter__(self) -> Iterator[int]:
        return (index for first, last, step in self.ranges for index in range(first, last + 1, step))

    @property
    def text(self) -> str:
        """As it is written."""
        return ",".join(map(_written, self.ranges))


def parse_indices(name: str, text: str) -> IndexSet:
    """Raises BadQuantityError, whose sentence says what to write instead."""
    if not text.strip() or len(text) > _MAX_TEXT:
        raise BadQuantityError(f"{name} must be indices, {_FORM}; got {text[:80]!r}")
    ranges = sorted(_range(name, part.strip()) for part in text.split(","))
    for before, after in pairwise(ranges):
        if after[0] <= before[1]:
            raise BadQuantityError(
                f"{name}: {_written(before)} and {_written(after)} overlap; write stretches that lie one "
                "after the other, and each index once"
            )
    found = IndexSet(tuple(ranges))
    if found.count > MAX_INDICES:
        raise BadQuantityError(
            f"{name} may have at most {MAX_INDICES:,} indices, and {text[:80]} has {found.count:,}: write a "
            "shorter range, or a step (0-9999:10)"
        )
    return found


def parse_array(name: str, text: str) -> tuple[IndexSet, int | None]:
    """The indices, and how many of them at once; None: as many as there is room for."""
    indices, sign, at_once = text.partition("%")
    if not sign:
        return parse_indices(name, text), None
    if not _is_number(at_once.strip()) or int(at_once) < 1:
        raise BadQuantityError(
            f"{name}: %{at_once[:20]} must say how many run at once, 1 or more, such as {indices[:40]}%50; "
            "to let none start for now, submit it suspended"
        )
    return parse_indices(name, indices), min(int(at_once), MAX_INDICES)


def _range(name: str, part: str) -> Range:
    span, colon, step_text = part.partition(":")
    first_text, dash, last_text = span.partition("-")
    numbers = [first_text.strip(), last_text.strip() if dash else first_text.strip()]
    if not all(map(_is_number, numbers)) or (colon and not (dash and _is_number(step_text.strip()))):
        raise BadQuantityError(f"{name} must be indices, {_FORM}; got {part[:80]!r}")
    first, last = map(int, numbers)
    step = int(step_text) if colon else 1
    if last > MAX_INDEX or first > MAX_INDEX:
        raise BadQuantityError(f"{name}: an index may be at most {MAX_INDEX}; got {part[:80]}")
    if last < first:
        raise BadQuantityError(f"{name}: {part[:80]} is backwards; write {last}-{first}")
    if step < 1:
        raise BadQuantityError(f"{name}: the step of {part[:80]} must be 1 or more, such as {span}:2")
    return (first, last - (last - first) % step, step if last - first >= step else 1)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_INDEX)) + 2


def _written(stretch: Range) -> str:
    first, last, step = stretch
    if first == last:
        return str(first)
    return f"{first}-{last}" if step == 1 else f"{first}-{last}:{step}"
