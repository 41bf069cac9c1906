"""Start estimator: an interval for the start of every pending job, from a projection of the queue.

The interval spans the 10th to the 90th percentile of the projected starts. How earlier intervals held widens
or narrows it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from tgpu.core.estimates.projection import Projection, project
from tgpu.core.estimates.run_times import RunTimes
from tgpu.core.estimates.snapshot import Snapshot
from tgpu.domain.job import TaskBrief
from tgpu.domain.start_estimate import ExpectedStart, StartInterval

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
TIME_LIMITS = "time limits"
STOPPED_FOR_IT = "the grace of the tasks that are being stopped for it"
NEXT_CYCLE = "free capacity"
_TOLERANCE_MS = 2000
"""Of any interval, to both sides: a start takes some time itself."""
_TOLERANCE_PART = 0.02
_ENOUGH_SCORES = 20
_SCORES_KEPT = 300
_LEAST, _MOST = 0.9, 4.0
"""Bounds of the factor on the far end of an interval, and of its inverse on the near end."""


@dataclass(frozen=True, slots=True)
class Widening:
    """Factors on the distance from now to both ends of every interval."""

    near: float = 1.0
    far: float = 1.0


@dataclass(slots=True)
class Residuals:
    """How far into their intervals jobs started: what the next intervals are widened by."""

    near: list[float] = field(default_factory=list)
    """Of each start: its distance from the estimate, over that of the near end before widening."""
    far: list[float] = field(default_factory=list)

    def add(self, made_ms: int, interval: StartInterval, used: Widening, started_ms: int) -> None:
        waited = started_ms - made_ms
        if interval.expected_ms - made_ms < 5 * _TOLERANCE_MS:
            return  # that close, all is tolerance
        if interval.earliest_ms > made_ms:
            self.near.append(waited / (interval.earliest_ms - made_ms) * used.near)
        if interval.latest_ms > made_ms:
            self.far.append(waited / (interval.latest_ms - made_ms) * used.far)
        del self.near[:-_SCORES_KEPT], self.far[:-_SCORES_KEPT]

    @property
    def widening(self) -> Widening:
        near, far = 1.0, 1.0
        if len(self.near) >= _ENOUGH_SCORES:
            near = min(1.0 / _LEAST, max(1.0 / _MOST, float(np.quantile(self.near, LOW))))
        if len(self.far) >= _ENOUGH_SCORES:
            far = min(_MOST, max(_LEAST, float(np.quantile(self.far, HIGH))))
        return Widening(near, far)


@dataclass(frozen=True, slots=True)
class Estimates:
    """Of all pending jobs at one moment."""

    made_ms: int
    widening: Widening
    jobs: dict[int, ExpectedStart]
    steps: int = 0


def estimate(
    snapshot: Snapshot,
    run_times: RunTimes,
    widening: Widening | None = None,
    *,
    breathe: Callable[[], None] = lambda: None,
) -> Estimates:
    widening = widening or Widening()
    now_ms = snapshot.now_ms
    projection = project(snapshot, run_times, breathe=breathe)
    found = _intervals(projection, widening, snapshot)
    for task_id, gone_ms in snapshot.claims.items():
        gone_ms = max(gone_ms, now_ms)  # noqa: PLW2901
        found[task_id.job_id] = StartInterval(now_ms, gone_ms, gone_ms + _TOLERANCE_MS, STOPPED_FOR_IT)
    jobs = {job_id: ExpectedStart(interval) for job_id, interval in found.items()}
    for job_id, why in projection.left_out.items():
        jobs.setdefault(job_id, ExpectedStart(reason=why))
    for task in snapshot.parked:
        jobs.setdefault(task.task_id.job_id, ExpectedStart(reason=_why_parked(task)))
    return Estimates(now_ms, widening, jobs, projection.steps)


def _intervals(projection: Projection, widening: Widening, snapshot: Snapshot) -> dict[int, StartInterval]:
    """By job: of the first of its tasks to start."""
    found: dict[int, StartInterval] = {}
    if not projection.units:
        return found
    reserved = {each.task_ids[0].job_id: each.at_ms for each in snapshot.reservations}
    quantiles = np.quantile(projection.starts_ms, (LOW, MIDDLE, HIGH), axis=0) - projection.now_ms
    bases = [_basis(seen) for seen in zip(*projection.samples, strict=True)]
    of_the_rest = bases[-1]
    for unit, (near, middle, far) in zip(projection.units, quantiles.T.tolist(), strict=True):
        known = found.get(unit.job_id)
        if unit.is_clone or (known is not None and known.expected_ms <= projection.now_ms + middle):
            continue
        basis = bases[unit.number] if unit.number < len(bases) else of_the_rest
        floor_ms = max(projection.now_ms, unit.eligible_ms)
        at_ms = reserved.get(unit.job_id)
        ends = (near, middle, far)
        if at_ms is not None and at_ms >= floor_ms:
            ends = tuple(min(each, at_ms - projection.now_ms) for each in ends)
        found[unit.job_id] = _interval(ends, projection.now_ms, floor_ms, widening, basis)
    return found


def _interval(
    ends: tuple[float, ...], now_ms: int, floor_ms: int, widening: Widening, basis: str
) -> StartInterval:
    near, middle, far = ends
    expected_ms = max(floor_ms, now_ms + round(middle))
    near_ms = (1 - _TOLERANCE_PART) * widening.near * near - _TOLERANCE_MS
    far_ms = (1 + _TOLERANCE_PART) * widening.far * far + _TOLERANCE_MS
    earliest_ms = max(floor_ms, now_ms + round(near_ms))
    latest_ms = max(expected_ms + _TOLERANCE_MS, now_ms + round(far_ms))
    return StartInterval(min(earliest_ms, expected_ms), expected_ms, latest_ms, basis)


def _basis(samples: Sequence[int]) -> str:
    known = [count for count in samples if count]
    if not known:
        return TIME_LIMITS
    count = round(median(known))
    text = "run times of 1 similar job" if count == 1 else f"run times of {count} similar jobs"
    return f"{text} and {TIME_LIMITS}" if 2 * len(known) < len(samples) else text


def _why_parked(task: TaskBrief) -> str:
    timing = task.timing
    if timing is not None and timing.held_by is not None:
        return "it is held"
    if timing is not None and timing.suspended_by is not None:
        return "it is suspended"
    if timing is not None and timing.unmet:
        return "when the jobs that it depends on end is not known"
    return "it may not start yet"
