"""A moment to come as people write it, as RFC 3339: `now+1hour`, `16:00`, `tomorrow 2am`, `2026-01-20`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta

from tgpu.dialects.native.problems import JobFieldError
from tgpu.domain.local_time import instant
from tgpu.domain.quantities import BadQuantityError, seconds

_FORM = "16:00, now+1hour, 2h (from now on), 4pm, tomorrow, tomorrow 02:00, 2026-01-20 or 2026-01-20T12:34"
_LATER = re.compile(r"now(?:\s*\+\s*(\d{1,9})\s*([a-z]*))?", re.IGNORECASE)
_UNITS = {
    "": 1, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
    "d": 86400, "day": 86400, "w": 604800, "week": 604800,
}  # fmt: skip
_TIME_OF_DAY = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?")
_TWELVE_HOURS = re.compile(r"(0?[1-9]|1[0-2])(?::([0-5]\d))?\s*([ap])\.?m\.?", re.IGNORECASE)
_WORDS = {"midnight": time(0), "noon": time(12), "teatime": time(16)}


def coming(name: str, text: str, now: float) -> str:
    """On this machine's clock; a time of day that has passed is tomorrow's."""
    said = text.strip()
    here = datetime.fromtimestamp(now).astimezone()
    try:
        found = _after_now(said, here) or _of_the_day(said, here) or _date(said)
        found = None if found is None else found.astimezone(UTC)
    except OverflowError:
        found = None
    if found is None:
        raise JobFieldError(f"{name} must be a moment such as {_FORM}; got {text!r}")
    return f"{found.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def _after_now(said: str, here: datetime) -> datetime | None:
    match = _LATER.fullmatch(said)
    if match is not None:
        unit = (match[2] or "").lower()
        unit = unit if unit in _UNITS else unit.removesuffix("s")
        return here + timedelta(seconds=int(match[1] or 0) * _UNITS[unit]) if unit in _UNITS else None
    if ":" in said or said.isdigit():
        return None  # a time of day, or who knows
    try:
        return here + timedelta(seconds=seconds("time", said))
    except BadQuantityError:
        return None


def _of_the_day(said: str, here: datetime) -> datetime | None:
    day, _, rest = said.lower().partition(" ")
    if day not in ("today", "tomorrow"):
        of_day = _time_of_day(said)
        if of_day is None:
            return None
        today = _on(here, of_day)
        return today if today > here else _on(here + timedelta(days=1), of_day)
    if said.lower() == "today":
        return here
    of_day = _time_of_day(rest.strip()) if rest else time(0)
    return None if of_day is None else _on(here + timedelta(days=day == "tomorrow"), of_day)


def _time_of_day(said: str) -> time | None:
    if match := _TIME_OF_DAY.fullmatch(said):
        return time(int(match[1]), int(match[2]), int(match[3] or 0))
    if match := _TWELVE_HOURS.fullmatch(said):
        return time(int(match[1]) % 12 + (12 if match[3].lower() == "p" else 0), int(match[2] or 0))
    return _WORDS.get(said.lower())


def _on(day: datetime, of_day: time) -> datetime:
    """By the zone's rules of that day, which may have changed its clocks."""
    return instant(datetime.combine(day.date(), of_day))


def _date(said: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(said)
        return instant(found) if found.tzinfo is None else found.astimezone()
    except (ValueError, OSError):
        return None
