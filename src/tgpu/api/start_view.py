"""Expected starts of pending jobs, and how well earlier ones held, as callers see them."""

from collections.abc import Sequence

import msgspec

from tgpu.api.endpoint import Call
from tgpu.api.job_row import JobRow
from tgpu.api.job_view import JobOut
from tgpu.api.ports import NoLeaderError
from tgpu.api.start_interval import interval_out, moment_out
from tgpu.domain.job import Job
from tgpu.domain.start_estimate import INSIDE_TARGET, Horizon, Score, calibration_of


class ScoreOut(msgspec.Struct, kw_only=True):
    """How well some estimates held; null without any."""

    count: int
    inside: float | None
    """The share of jobs that started inside their interval."""
    median_error_s: float | None
    """Between the expected and the actual start."""


class CalibrationOut(ScoreOut, kw_only=True):
    """Over the latest jobs that started after an estimate: the first one of each."""

    target: float
    by_horizon: dict[Horizon, ScoreOut]
    """By how far ahead the start was expected."""


async def calibration(call: Call) -> CalibrationOut:
    found = calibration_of(await call.services.store.scored_start_estimates())
    whole = found.whole
    return CalibrationOut(
        count=whole.count,
        inside=whole.inside,
        median_error_s=whole.median_error_s,
        target=INSIDE_TARGET,
        by_horizon={horizon: _score_out(score) for horizon, score in found.by_horizon.items()},
    )


def _score_out(score: Score) -> ScoreOut:
    return ScoreOut(count=score.count, inside=score.inside, median_error_s=score.median_error_s)


async def add_expected_starts(call: Call, jobs: Sequence[Job], shown: Sequence[JobOut | JobRow]) -> None:
    """To those that are pending, in one question to the leader; to none if it cannot tell."""
    pending = [job.job_id for job in jobs if job.status.waits]
    if not pending:
        return
    try:
        found = await call.services.live.expected_starts(pending)
    except NoLeaderError:
        return  # also of an older leader, which does not know the question
    known = dict(zip(pending, found, strict=True))
    for out in shown:
        expected = known.get(out.job_id)
        if expected is None:
            continue
        if expected.interval is None:
            out.no_expected_start = expected.reason
        else:
            out.expected_start = moment_out(expected.interval.expected_ms)
            out.start_interval = interval_out(expected.interval)
