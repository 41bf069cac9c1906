"""Lengths of time as Slurm writes and reads them: `90` (minutes), `1:30:00`, `2-12`, `UNLIMITED`."""

from __future__ import annotations

from tgpu.dialects.slurm.refusal import SlurmError

_DAY, _HOUR, _MINUTE = 86400, 3600, 60
_LONGEST_S = 3660 * _DAY
_NO_LIMIT = ("UNLIMITED", "INFINITE", "-1")
_FORMS = "90 (minutes), 90:00, 1:30:00, 2-12, 2-12:30 or 2-12:30:00"


def time_limit_s(name: str, text: str) -> int | None:
    """None: no limit. Other than Slurm, which counts whole minutes, seconds are kept."""
    body = text.strip()
    if body.upper() in _NO_LIMIT:
        return None
    days, dash, clock = body.rpartition("-")
    parts = clock.split(":")
    numbers = [*([days] if dash else []), *parts]
    if len(parts) > 3 or not all(_is_number(part) for part in numbers):  # noqa: PLR2004
        raise SlurmError(f"{name} must be a time such as {_FORMS}; got {text!r}")
    hours, minutes, seconds = _with_days(parts) if dash else _without(parts)
    _check(name, text, "hours", hours, 23 if dash else None)
    _check(name, text, "minutes", minutes, 59 if dash or len(parts) == 3 else None)  # noqa: PLR2004
    _check(name, text, "seconds", seconds, 59)
    total = int(days or 0) * _DAY + hours * _HOUR + minutes * _MINUTE + seconds
    if total > _LONGEST_S:
        raise SlurmError(f"{name} may be at most 3660 days; got {text!r}; UNLIMITED is no limit")
    return total or None  # Slurm's zero is no limit


def _with_days(parts: list[str]) -> tuple[int, int, int]:
    hours, minutes, seconds = (int(part) for part in [*parts, "0", "0"][:3])
    return hours, minutes, seconds


def _without(parts: list[str]) -> tuple[int, int, int]:
    if len(parts) == 1:
        return 0, int(parts[0]), 0
    hours, minutes, seconds = (int(part) for part in ["0", *parts][-3:])
    return hours, minutes, seconds


def _check(name: str, text: str, unit: str, number: int, most: int | None) -> None:
    if most is not None and number > most:
        raise SlurmError(
            f"{name} {text!r} says {number} {unit}, of which there are at most {most} there: write {_FORMS}"
        )


def written(seconds: int) -> str:
    """As `squeue` does: `0:05`, `12:30`, `1:02:03`, `2-12:00:00`."""
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, secs = divmod(rest, _MINUTE)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{secs:02}"
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


def written_whole(seconds: int) -> str:
    """As `sacct` and `scontrol` do: `00:00:05`, `2-12:00:00`."""
    days, rest = divmod(seconds, _DAY)
    hours, rest = divmod(rest, _HOUR)
    minutes, secs = divmod(rest, _MINUTE)
    return f"{days}-{hours:02}:{minutes:02}:{secs:02}" if days else f"{hours:02}:{minutes:02}:{secs:02}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9  # noqa: PLR2004  longer ones only overflow
