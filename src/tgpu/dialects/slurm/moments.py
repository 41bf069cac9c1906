"""Moments as Slurm reads them: `16:00`, `now+1hour`, `2026-01-20T12:34`, `01/20/26`, `teatime`."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.domain.local_time import instant

_NAMED_HOURS = {"midnight": 0, "noon": 12, "fika": 15, "teatime": 16}
_UNITS_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*([ap]m)?")
_NOW = re.compile(r"now(?:\s*([+-])\s*(\d{1,9})\s*([a-z]*))?")
_ISO = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_SLASHED = re.compile(r"(\d{1,2})[/.](\d{1,2})(?:[/.](\d{2}|\d{4}))?")
_PACKED = re.compile(r"(\d{2})(\d{2})(\d{2})?")
_FORMS = "16:00, now+1hour, tomorrow, 2026-01-20 or 2026-01-20T12:34"


def moment(name: str, text: str, now: datetime, *, past: bool = False) -> datetime:
    """`now`: in the zone in which the text is meant; without one, this machine's. A time of day that has
    passed is tomorrow's, and a day without a year next year's, unless `past` moments are asked for."""
    body = text.strip().lower()
    try:
        found = _relative(body, now) or _clock_only(body, now, past=past) or _dated(body, now, past=past)
    except (ValueError, OverflowError) as error:
        raise SlurmError(f"{name} {text!r} is no moment: {error}") from None
    if found is None:
        raise SlurmError(f"{name} must be a moment such as {_FORMS}; got {text!r}")
    return found if found.tzinfo is not None else instant(found)


def local_now() -> datetime:
    """Without a zone: by this machine's clocks, whose offset may change until the moment that is meant."""
    return datetime.now()  # noqa: DTZ005  see above


def rfc3339(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%S}Z"


def _relative(body: str, now: datetime) -> datetime | None:
    if body == "tomorrow":
        return _midnight(now) + timedelta(days=1)
    match = _NOW.fullmatch("now" if body == "today" else body)
    if match is None:
        return None
    sign, count, unit = match.groups()
    now = now.astimezone() if now.tzinfo is None else now  # seconds that pass, not those that clocks show
    if sign is None:
        return now
    each = next((s for word, s in _UNITS_S.items() if unit and word.startswith(unit.removesuffix("s"))), None)
    if unit and each is None:
        raise ValueError(f"{unit} is no unit; there are seconds, minutes, hours, days and weeks")
    return now + timedelta(seconds=int(count) * (each or 1) * (-1 if sign == "-" else 1))


def _clock_only(body: str, now: datetime, *, past: bool) -> datetime | None:
    clock = _clock(body)
    if clock is None:
        return None
    found = _midnight(now).replace(hour=clock[0], minute=clock[1], second=clock[2])
    return found if past or found > now else found + timedelta(days=1)


def _clock(body: str) -> tuple[int, int, int] | None:
    if body in _NAMED_HOURS:
        return _NAMED_HOURS[body], 0, 0
    match = _CLOCK.fullmatch(body)
    if match is None:
        return None
    hour, minute, second, half = int(match[1]), int(match[2]), int(match[3] or 0), match[4]
    if half:
        if not 1 <= hour <= 12:  # noqa: PLR2004
            raise ValueError("with am or pm the hour is from 1 to 12")
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour, minute, second


def _dated(body: str, now: datetime, *, past: bool) -> datetime | None:
    date, _, clock = body.partition("t") if _ISO.match(body) else body.partition("-")
    if _ISO.match(body) and not clock and len(body) > len("2026-01-20"):
        date, _, clock = body[:10], "", body[11:]  # sacct takes 2026-01-20-12:34, too
    time_of_day = _clock(clock) if clock else (0, 0, 0)
    if time_of_day is None:
        return None
    if match := _ISO.fullmatch(date):
        year, month, day = int(match[1]), int(match[2]), int(match[3])
    elif match := _SLASHED.fullmatch(date) or _PACKED.fullmatch(date):
        month, day = int(match[1]), int(match[2])
        year = _year(match[3], now)
        if match[3] is None and not past and _at(now, (year, month, day), time_of_day) < now:
            year += 1
    else:
        return None
    return _at(now, (year, month, day), time_of_day)


def _year(said: str | None, now: datetime) -> int:
    if said is None:
        return now.year
    return int(said) if len(said) == 4 else 2000 + int(said)  # noqa: PLR2004


def _at(now: datetime, date: tuple[int, int, int], clock: tuple[int, int, int]) -> datetime:
    return datetime(*date, *clock, tzinfo=now.tzinfo)


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0)
