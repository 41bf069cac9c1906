"""Judges what a job says of time: when it may start, by when it must be over, how long it may wait."""

from dataclasses import replace
from datetime import datetime

from tgpu.api.edge import rfc3339
from tgpu.api.problems import unprocessable
from tgpu.api.timing_form import TimingAsked
from tgpu.config.settings import Settings
from tgpu.domain.job import JobSpec
from tgpu.domain.quantities import seconds, time_in_words
from tgpu.domain.timing import Timing

_LATEST_MS = 253_402_300_799_000  # the year 9999: what can be shown
_NOTHING = Timing()


def moment_ms(field: str, text: str) -> int:
    """Raises ProblemError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise unprocessable(
            field, f"{field} must be a time with a zone, such as 2030-01-31T12:00:00Z; got {text[:80]!r}"
        )
    at_ms = round(moment.timestamp() * 1000)
    if not 0 <= at_ms <= _LATEST_MS:
        raise unprocessable(field, f"{field} must be from 1970 to 9999; got {text[:80]!r}")
    return at_ms


def timing_of(asked: TimingAsked, by: str) -> Timing | None:
    """`by`: who submits it. Raises ProblemError."""
    timing = Timing(
        begin_ms=None if asked.begin_at is None else moment_ms("begin_at", asked.begin_at),
        deadline_ms=None if asked.deadline_at is None else moment_ms("deadline_at", asked.deadline_at),
        again_on_timeout=asked.requeue_on_timeout,
        held_by=by if asked.hold else None,
    )
    return None if timing == _NOTHING else timing


def check_in_time(spec: JobSpec, now_ms: int) -> None:
    """Whether it can be over by its deadline at all. Raises ProblemError."""
    timing = spec.timing
    if timing is None:
        return
    if timing.again_on_timeout and spec.time_limit_s is None:
        raise unprocessable(
            "requeue_on_timeout", "requeue_on_timeout needs a time limit (time_limit_s): give one"
        )
    if timing.again_on_timeout and not spec.requeue:
        raise unprocessable(
            "requeue_on_timeout",
            "requeue_on_timeout cannot go with requeue = false (--no-requeue), which forbids to try again: "
            "keep one of them",
        )
    starts_by = timing.starts_by(spec.time_limit_s)
    if starts_by is None or timing.deadline_ms is None:
        return
    first_ms, since = max((now_ms, "now"), (timing.begin_ms or 0, "begin_at"))
    if starts_by <= first_ms:
        limit_s = spec.time_limit_s
        takes = "" if limit_s is None else f" with a time limit of {time_in_words(limit_s)}"
        raise unprocessable(
            "deadline_at",
            f"deadline_at: from {since}{takes} it cannot be over by {rfc3339(timing.deadline_ms)}: give a "
            "later deadline, or a shorter time limit",
        )


def with_wait_of_pool(spec: JobSpec, settings: Settings) -> JobSpec:
    """What it does not say of how long it may wait, its pool says, or the setting for all. Where its groups
    name several, the shortest counts: they wait together."""
    if spec.max_wait_s is not None or not (settings.max_wait or settings.pools):
        return spec
    of_pool = {each.name: each.max_wait for each in settings.pools if each.max_wait is not None}
    said = {of_pool.get(group.request.pool or "", settings.max_wait) for group in spec.groups}
    waits = [seconds("max_wait", text) for text in said if text]
    return replace(spec, max_wait_s=min(waits)) if waits else spec
