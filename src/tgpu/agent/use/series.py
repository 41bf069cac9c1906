"""The course of a task's use in at most so many stretches, however long it runs.

When there would be too many, each two neighbours become one, and from then on stretches are twice as long.
Means stay means, the largest value stays the largest, and what came together still does.
"""

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from tgpu.protocol.use import MEANS, PEAK, SECONDS, SUMS, doubles, in_bytes

MOST = 360
_UNTOLD = math.nan
_ALMOST = 0.999
"""A stretch that lacks so little of its length is whole: nobody looks to the microsecond."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look has told since the one before it; what is not among them could not be told."""

    seconds: float
    means: Mapping[str, float]
    sums: Mapping[str, float]


@dataclass(slots=True)
class Series:
    step_s: float
    columns: "dict[str, array[float]]" = field(default_factory=lambda: {SECONDS: array("d")})

    def __len__(self) -> int:
        return len(self.columns[SECONDS])

    @classmethod
    def found(cls, step_s: float, columns: Mapping[str, bytes]) -> "Series":
        """As it was kept in a file; with nothing in it if that is not whole."""
        series = cls(step_s)
        read = {name: doubles(data) for name, data in columns.items()}
        if SECONDS in read and len({len(column) for column in read.values()}) == 1:
            series.columns = read
        return series

    def packed(self) -> dict[str, bytes]:
        return {name: in_bytes(column) for name, column in self.columns.items()}

    def add(self, sample: Sample) -> None:
        values = {SECONDS: sample.seconds, **sample.means, **sample.sums}
        values |= {name + PEAK: value for name, value in sample.means.items()}
        for name in values.keys() - self.columns.keys():
            self.columns[name] = array("d", [_UNTOLD] * len(self))
        seconds = self.columns[SECONDS]
        is_open = bool(seconds) and seconds[-1] < _ALMOST * self.step_s
        for column in self.columns.values():
            column.append(_UNTOLD)
        for name, value in values.items():
            self.columns[name][-1] = value
        if is_open:
            self._join(len(self) - 2, len(self) - 2, len(self) - 1)
            for column in self.columns.values():
                column.pop()
        elif len(self) > MOST:
            self._thin()

    def total(self, name: str) -> float | None:
        """Of a column of sums: all of it. Of means: times the seconds of each. None: nobody ever told."""
        column = self.columns.get(name)
        if column is None:
            return None
        weights = self.columns[SECONDS] if name in MEANS else [1.0] * len(column)
        return sum(
            value * weight for value, weight in zip(column, weights, strict=True) if not math.isnan(value)
        )

    def largest(self, name: str) -> float | None:
        """Of a column of means: the largest value that was ever seen."""
        told = [value for value in self.columns.get(name + PEAK, ()) if not math.isnan(value)]
        return max(told, default=None)

    def _thin(self) -> None:
        count = len(self)
        for first in range(0, count - 1, 2):
            self._join(first // 2, first, first + 1)
        if count % 2:
            for column in self.columns.values():
                column[count // 2] = column[count - 1]
        for column in self.columns.values():
            del column[(count + 1) // 2 :]
        self.step_s *= 2

    def _join(self, to: int, first: int, second: int) -> None:
        """Two stretches become one, which is put at `to`, never behind `first`."""
        seconds = self.columns[SECONDS]
        weights = seconds[first], seconds[second]
        for name, column in self.columns.items():
            column[to] = _joined(name, (column[first], column[second]), weights)


def _joined(name: str, values: tuple[float, float], weights: tuple[float, float]) -> float:
    """Where only one of them was told, it stands for both."""
    told = [value for value in values if not math.isnan(value)]
    if not told:
        return _UNTOLD
    if name in SUMS or name == SECONDS:
        return sum(told)
    if name.endswith(PEAK) or len(told) == 1:
        return max(told)
    return (values[0] * weights[0] + values[1] * weights[1]) / (sum(weights) or 1.0)
