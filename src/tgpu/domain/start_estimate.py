"""Expected starts: an interval for one pending job, and how well earlier intervals held."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

INSIDE_TARGET = 0.8
"""The share of jobs that should start inside their interval: it spans the 10th to the 90th percentile."""
SCORED_KEPT = 1000
"""Scored estimates that the calibration is computed over: the latest ones."""


@dataclass(frozen=True, slots=True)
class StartInterval:
    """When a pending job is expected to start."""

    earliest_ms: int
    expected_ms: int
    latest_ms: int
    basis: str
    """What it was computed from: `time limits`, `run times of 12 similar jobs`."""


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """The expected start of one pending job, or why there is none."""

    interval: StartInterval | None = None
    reason: str = ""
    """Why there is no interval; empty if there is one."""


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """The first estimate made for a job, kept to be compared with its start."""

    job_id: int
    made_ms: int
    earliest_ms: int
    expected_ms: int
    latest_ms: int
    started_ms: int | None = None

    @property
    def horizon(self) -> "Horizon":
        return horizon_of(self.expected_ms - self.made_ms)

    @property
    def is_inside(self) -> bool:
        return self.started_ms is not None and self.earliest_ms <= self.started_ms <= self.latest_ms

    @property
    def error_ms(self) -> int:
        """Later than expected: positive."""
        return 0 if self.started_ms is None else self.started_ms - self.expected_ms


class Horizon(StrEnum):
    """How far ahead a start was expected."""

    MINUTES = "under-10m"
    HOUR = "under-1h"
    HOURS = "under-6h"
    LONGER = "longer"


_BOUNDS = ((600_000, Horizon.MINUTES), (3_600_000, Horizon.HOUR), (6 * 3_600_000, Horizon.HOURS))


def horizon_of(ahead_ms: int) -> Horizon:
    return next((horizon for bound_ms, horizon in _BOUNDS if ahead_ms < bound_ms), Horizon.LONGER)


@dataclass(frozen=True, slots=True)
class Score:
    """How well some estimates held; shares and errors are None without any."""

    count: int = 0
    inside: float | None = None
    """The share of jobs that started inside their interval."""
    median_error_s: float | None = None
    """Of the difference between expected and actual start, whichever came first."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of all scored estimates, and of those of each horizon."""

    whole: Score
    by_horizon: dict[Horizon, Score]


def calibration_of(scored: Iterable[StartEstimate]) -> Calibration:
    """Estimates of jobs that have not started are left out."""
    found = [each for each in scored if each.started_ms is not None]
    parts = {horizon: [each for each in found if each.horizon is horizon] for horizon in Horizon}
    return Calibration(_score(found), {horizon: _score(part) for horizon, part in parts.items()})


def _score(scored: Sequence[StartEstimate]) -> Score:
    if not scored:
        return Score()
    inside = sum(each.is_inside for each in scored) / len(scored)
    error_s = median(abs(each.error_ms) for each in scored) / 1000
    return Score(len(scored), round(inside, 4), round(error_s, 3))
