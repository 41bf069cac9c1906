"""Quantities as people write them (`0.25`, `16G`), and the exact integers they mean inside."""

from decimal import Decimal, InvalidOperation

MILLI = 1000
_MOST_DIGITS = 400
"""Before the decimal point: far beyond every bound, and cheap to compute with."""
MAX_CPU_MILLI = 1_000_000 * MILLI
MAX_GPU_MILLI = 100_000 * MILLI
MAX_MIB = 2**40  # one exbibyte, written in MiB
MAX_SECONDS = 10 * 366 * 24 * 3600
MAX_TIME_MS = 253_402_300_799_000  # the end of the year 9999: the last moment that can be written as a date
MAX_PRIORITY = 1_000_000
MAX_TASKS = 10_000  # of one job
MAX_GENERIC = 1_000_000_000

_SUFFIX_MIB = {
    "": Decimal(1),
    "K": Decimal(1) / 1024,
    "M": Decimal(1),
    "G": Decimal(1024),
    "T": Decimal(1024) ** 2,
    "P": Decimal(1024) ** 3,
}
_GIB, _TIB = 1024, 1024**2
_SUFFIX_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


class BadQuantityError(ValueError):
    """A quantity that cannot be meant; its text says what would be right."""


def _decimal(name: str, value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise BadQuantityError(f"{name} must be a number, such as 2 or 0.5")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise BadQuantityError(f"{name} must be a number, such as 2 or 0.5; got {value!r}") from None
    if not number.is_finite():
        raise BadQuantityError(f"{name} must be a finite number; got {value!r}")
    if number.adjusted() > _MOST_DIGITS:
        raise BadQuantityError(f"{name} is too large; got {str(value)[:40]!r}")
    return number


def milli(name: str, value: object, maximum: int) -> int:
    """`0.25` → 250; refuses more than 3 decimals, negatives and what is beyond `maximum` (in thousandths)."""
    if type(value) is int:  # as most are written, and exact as it is
        return bounded(name, value * MILLI, maximum, written=value, maximum_written=maximum // MILLI)
    thousandths = _decimal(name, value) * MILLI
    if thousandths != thousandths.to_integral_value():
        raise BadQuantityError(f"{name} may have at most 3 decimals; got {value}")
    return bounded(name, int(thousandths), maximum, written=value, maximum_written=maximum // MILLI)


def bounded(name: str, number: int, maximum: int, *, written: object, maximum_written: object = None) -> int:
    if number < 0:
        raise BadQuantityError(f"{name} must not be negative; got {written}")
    if number > maximum:
        limit = maximum if maximum_written is None else maximum_written
        raise BadQuantityError(f"{name} may be at most {limit}; got {written}")
    return number


def natural(text: str) -> int | None:
    """A number of ASCII digits alone; None of any other text. One beyond every bound is cut to that."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def whole(name: str, value: object, maximum: int) -> int:
    """A whole, non-negative number of whatever unit the name says."""
    if type(value) is int:
        return bounded(name, value, maximum, written=value)
    number = _decimal(name, value)
    if number != number.to_integral_value():
        raise BadQuantityError(f"{name} must be a whole number; got {value}")
    return bounded(name, int(number), maximum, written=value)


def mib(name: str, text: str) -> int:
    """`16G` → 16384, `512M` or `512` → 512 (MiB); a part of a MiB is rounded up."""
    body = text.strip()
    unit = body.removesuffix("B").removesuffix("b").removesuffix("i")
    suffix = unit[-1:].upper() if unit[-1:].isalpha() else ""
    if suffix not in _SUFFIX_MIB:
        raise BadQuantityError(f"{name} must be a size such as 512M or 16G; got {text!r}")
    amount = unit[: len(unit) - len(suffix)]
    if amount[-1:].isalpha():
        raise BadQuantityError(f"{name} must be a size such as 512M or 16G; got {text!r}")
    number = _decimal(name, amount) * _SUFFIX_MIB[suffix]
    rounded = int(number.to_integral_value(rounding="ROUND_CEILING"))
    return bounded(name, rounded, MAX_MIB, written=text, maximum_written="1048576T")


def size_in_words(size_mib: int) -> str:
    """`512 MiB`, `16 GiB`, `1.5 TiB`; at most 3 decimals, and TiB only where that is exact."""
    tib = Decimal(size_mib) / _TIB
    if tib >= 1 and tib == round(tib, 3):
        return f"{tib.normalize():f} TiB"
    if size_mib < _GIB:
        return f"{size_mib} MiB"
    return f"{round(Decimal(size_mib) / _GIB, 3).normalize():f} GiB"


def time_in_words(length_s: int) -> str:
    """As a time limit is written: `45s`, `35m`, `2h30m`, `1d`."""
    parts, rest = [], length_s
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, _SUFFIX_SECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def seconds(name: str, text: str) -> int:
    """`90`, `90s`, `15m`, `2h30m`, `1d`, `01:30:00` or `1-12:00:00` → seconds."""
    body = text.strip()
    if len(body) > _MOST_DIGITS:  # Python refuses to read numbers of thousands of digits
        raise BadQuantityError(f"{name} is too long for a duration; got {body[:40]!r}…")
    total = _clock_seconds(body) if ":" in body else _unit_seconds(body)
    if total is None:
        raise BadQuantityError(
            f"{name} must be a duration such as 90s, 2h30m, 01:30:00 or 1-12:00:00; got {text!r}"
        )
    return bounded(name, total, MAX_SECONDS, written=text, maximum_written="3660d")


def _unit_seconds(body: str) -> int | None:
    if body.isascii() and body.isdigit():
        return int(body)
    total, digits = 0, ""
    for char in body.lower():
        if char.isascii() and char.isdigit():
            digits += char
        elif char in _SUFFIX_SECONDS and digits:
            total, digits = total + int(digits) * _SUFFIX_SECONDS[char], ""
        else:
            return None
    return total if body and not digits else None


def _clock_seconds(body: str) -> int | None:
    days, _, clock = body.rpartition("-")
    parts = clock.split(":")
    numbers = [days or "0", *parts]
    if len(parts) not in (2, 3) or not all(n.isascii() and n.isdigit() for n in numbers):
        return None
    if len(parts) == 2 and not days:  # noqa: PLR2004  MM:SS, as Slurm reads it
        parts = ["0", *parts]
    elif len(parts) == 2:  # noqa: PLR2004  D-HH:MM
        parts = [*parts, "0"]
    hours, minutes, secs = (int(part) for part in parts)
    if minutes > 59 or secs > 59:  # noqa: PLR2004
        return None
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + secs
