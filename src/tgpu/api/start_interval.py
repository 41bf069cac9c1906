"""The interval in which a pending job is expected to start, as callers see it."""

import msgspec

from tgpu.api.edge import rfc3339
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
        earliest=rfc3339(interval.earliest_ms),
        expected=rfc3339(interval.expected_ms),
        latest=rfc3339(interval.latest_ms),
        basis=interval.basis,
    )
