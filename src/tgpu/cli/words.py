"""Numbers, sizes and times as people read them."""

from __future__ import annotations

import time

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def duration(seconds: float) -> str:
    """`12s`, `4m05s`, `3h12m`, `2d04h`."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def number(value: float | None) -> str:
    """`2`, `0.25`; a dash where nothing is known."""
    return "-" if value is None else f"{round(value, 3):g}" if value < 1e6 else f"{value:.0f}"  # noqa: PLR2004


def size(mib: float | None) -> str:
    """`512M`, `16G`, `1.5T`, from MiB."""
    if mib is None:
        return "-"
    value = float(mib)
    if 0 < value < 1:
        return "<1M"
    for unit in "MGT":
        if value < 1024 or unit == "T":  # noqa: PLR2004
            return f"{value:.4g}{unit}" if value else "0"
        value /= 1024
    raise AssertionError


def timestamp(moment: str | None) -> float | None:
    """Seconds since 1970 of an RFC 3339 time."""
    if not moment:
        return None
    from datetime import datetime  # noqa: PLC0415  2 ms that only times need

    return datetime.fromisoformat(moment).timestamp()


def local_time(moment: str | None) -> str:
    """`2026-07-25 14:03:11`, on this machine's clock."""
    stamp = timestamp(moment)
    return "-" if stamp is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(stamp))


def ago(moment: str | None, now: float) -> str:
    """`3m05s ago`; a dash where nothing is known."""
    stamp = timestamp(moment)
    return "-" if stamp is None else f"{duration(now - stamp)} ago"


def zoned_time(moment: str | None) -> str:
    """`2026-07-25 14:03 CEST`: on this machine's clock, and which one that is."""
    stamp = timestamp(moment)
    return "-" if stamp is None else time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(stamp))


def short_time(moment: str | None, now: float) -> str:
    """`14:03`, on this machine's clock; with the day if that is another, and the year if that is."""
    stamp = timestamp(moment)
    if stamp is None:
        return "-"
    then, today = time.localtime(stamp), time.localtime(now)
    if then.tm_year != today.tm_year:
        return time.strftime("%Y-%m-%d %H:%M", then)
    return time.strftime("%H:%M" if then.tm_yday == today.tm_yday else "%m-%d %H:%M", then)


def between(start: str | None, end: str | None, now: float) -> float | None:
    """Seconds from `start` to `end`, or to now."""
    begun = timestamp(start)
    ended = timestamp(end)
    return None if begun is None else max(0.0, (now if ended is None else ended) - begun)


def ordinal(position: int) -> str:
    tail = "th" if position % 100 in {11, 12, 13} else {1: "st", 2: "nd", 3: "rd"}.get(position % 10, "th")
    return f"{position}{tail}"


def ranges(ids: list[int]) -> str:
    """`3,7-12`."""
    parts: list[list[int]] = []
    for job_id in ids:
        if parts and parts[-1][-1] == job_id - 1:
            parts[-1] = [parts[-1][0], job_id]
        else:
            parts.append([job_id])
    return ",".join("-".join(map(str, part)) for part in parts)


def plural(count: int, thing: str) -> str:
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def gpu_hours(said: str) -> str:
    """`1 GPU-hour`, `0.5 GPU-hours`."""
    return f"{said} GPU-hour" if said == "1" else f"{said} GPU-hours"


def plural_number(value: float | None, thing: str) -> str:
    """`2 GPUs`, `0.25 GPU`; nothing for nothing."""
    return "" if not value else f"{number(value)} {thing}" + ("s" if value > 1 else "")
