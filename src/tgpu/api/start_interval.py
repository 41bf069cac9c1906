"""The interval in which a pending job is expected to start, as callers see it."""

import msgspec

from tgpu.api.edge import rfc3339
from tgpu.domain.quantities import MAX_TIME_MS
from tgpu.domain.start_estimate import StartInterval


class StartIntervalOut(msgspec.Struct, kw_only=True):
    """About eight of ten jobs start between `earliest` and `latest`."""

    earliest: str
    expected: str
    latest: str
    basis: str
    """What it was computed from, in words: `time limits`, `run times of 12 similar jobs`."""


def interval_out(interval: StartInterval) -> StartIntervalOut:
    return StartIntervalOut(
        earliest=moment_out(interval.earliest_ms),
        expected=moment_out(interval.expected_ms),
        latest=moment_out(interval.latest_ms),
        basis=interval.basis,
    )


def moment_out(at_ms: int) -> str:
    """A long queue of long jobs can reach beyond the last year that can be written."""
    return rfc3339(min(at_ms, MAX_TIME_MS))
