"""Run-time estimator: how long a task runs, by what similar tasks took.

History is kept per key as the last few run times, at several levels of similarity; an estimate comes from the
first level that knows enough, and from the time limit alone where none does. Nothing here reads a clock or
the store, and histories are replaced rather than changed, so that another thread may read while one adds.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tgpu.domain.command_signature import program_in
from tgpu.domain.job import TaskBrief

KEPT = 32
"""Run times per key: the latest ones."""
MOST_KEYS = 20_000
ENOUGH = 3
"""Run times that make a distribution."""
_SPREAD = (0.6, 1.0, 1.6)
"""What one or two runs of the very same command are taken to say about the next one."""
_BELOW, _ABOVE = 0.8, 1.25
"""How far beyond the shortest and longest known run the next one may lie."""
_OF_LIMIT = ((0.0, 0.0), (0.1, 0.05), (0.5, 0.4), (0.9, 1.0), (1.0, 1.0))
"""Without any history: (quantile, part of the time limit). Limits are mostly generous."""
_OF_DEFAULT = ((0.0, 0.0), (0.1, 0.002), (0.5, 0.03), (0.9, 0.4), (1.0, 1.0))
"""The same of a task without a limit: most are far shorter than the default that the planner assumes."""
_MOST_OVERTIME = 2.0
_STOPPING_S = 5.0
"""Of a task that has reached its limit: it is being stopped."""

Key = tuple[object, ...]


class Work(NamedTuple):
    """What tells similar tasks from others."""

    user: str
    name: str
    command: str
    """The signature of its command; empty if that is not known."""
    gpu_milli: int
    limit_s: int | None

    @classmethod
    def of(cls, task: TaskBrief) -> "Work":
        return cls(task.user, task.name, task.command, task.request.gpu_milli, task.time_limit_s)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Of a run time, in seconds."""

    samples: tuple[float, ...]
    """Sorted; empty: only the limit is known."""
    count: int
    """Runs that it was made from; 0: the limit alone."""
    limit_s: float
    """Its time limit or, without one, how long such tasks are taken to run."""
    is_bound: bool
    """Whether it cannot run longer than that."""
    is_close: bool = False
    """Whether it was made from runs of the same program: then it is wrong for each task by itself. Otherwise
    similar tasks are shorter or longer than it together."""

    def remaining_s(self, elapsed_s: float, quantile: float) -> float:
        """How much longer it runs, having run for so long; `quantile` is between 0 and 1."""
        first = bisect_right(self.samples, elapsed_s)
        tail = self.samples[first:]
        left_s = self.limit_s - elapsed_s
        if not tail:
            return self._by_limit(elapsed_s, left_s, quantile)
        found = _interpolated(tail, elapsed_s, quantile) - elapsed_s
        return max(0.0, min(found, left_s) if self.is_bound else found)

    def _by_limit(self, elapsed_s: float, left_s: float, quantile: float) -> float:
        if left_s > 0:
            return left_s * _part(_OF_LIMIT if self.is_bound else _OF_DEFAULT, quantile)
        if self.is_bound:
            return _STOPPING_S * quantile
        return elapsed_s * min(_MOST_OVERTIME, quantile / max(1e-9, 1.0 - quantile))

    def knows(self, elapsed_s: float) -> bool:
        """Whether similar tasks have run longer than this one has by now."""
        return bool(self.samples) and self.samples[-1] > elapsed_s


def _interpolated(tail: tuple[float, ...], floor: float, quantile: float) -> float:
    """Between the points ((i + 0.5) / n, tail[i]), with some room at both ends."""
    count = len(tail)
    at = quantile * count - 0.5
    if at <= 0:
        low = max(floor, _BELOW * tail[0])
        return low + (tail[0] - low) * (at + 0.5) * 2
    if at >= count - 1:
        return tail[-1] * (1 + (_ABOVE - 1) * (at - count + 1) * 2)
    index = int(at)
    return tail[index] + (tail[index + 1] - tail[index]) * (at - index)


def _part(points: Sequence[tuple[float, float]], quantile: float) -> float:
    for (low, low_part), (high, high_part) in pairwise(points):
        if quantile <= high:
            return low_part + (high_part - low_part) * (quantile - low) / (high - low)
    return 1.0


class RunTimes:
    """Bounded history of run times."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, tuple[float, ...]] = OrderedDict()
        """By key: in the order of their ends."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, work: Work, run_s: float) -> None:
        """A task has ended by itself, by its limit or by its user, having run for so long."""
        for key in _keys(work):
            self._known[key] = (*self._known.get(key, ())[1 - KEPT :], run_s)
            self._known.move_to_end(key)
        while len(self._known) > MOST_KEYS:
            self._known.popitem(last=False)

    def add_all(self, ended: Iterable[tuple[Work, float]]) -> None:
        for work, run_s in ended:
            self.add(work, run_s)

    def distribution(self, work: Work, default_s: float, elapsed_s: float = 0.0) -> Distribution:
        """The most similar tasks that there are enough of, and that ran longer than it has by now.
        `default_s`: how long a task without a limit is taken to run."""
        bound = work.limit_s is not None
        limit_s = float(default_s if work.limit_s is None else work.limit_s)
        for key in _keys(work):
            found = self._known.get(key)
            if found is None:
                continue
            is_same = key[0] == _SAME
            if len(found) < ENOUGH and not is_same:
                continue
            samples = found if len(found) >= ENOUGH else tuple(run * by for run in found for by in _SPREAD)
            if bound:
                samples = tuple(min(run, limit_s) for run in samples)
            close = is_same or key[0] == _PROGRAM
            made = Distribution(tuple(sorted(samples)), len(found), limit_s, bound, close)
            if made.knows(elapsed_s):
                return made
        return Distribution((), 0, limit_s, bound)


_SAME = "same"
_PROGRAM = "program"


def _keys(work: Work) -> Iterable[Key]:
    """From the most similar to the least."""
    if work.command:
        yield _SAME, work.user, work.name, work.command
        if program := program_in(work.command):
            yield _PROGRAM, work.user, program
    yield "request", work.user, work.gpu_milli, work.limit_s
    yield "user", work.user
    yield "class", work.gpu_milli, work.limit_s
