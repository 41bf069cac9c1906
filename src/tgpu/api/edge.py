"""How inner integers look outside: decimals with at most 3 digits, and RFC 3339 times in UTC."""

from datetime import UTC, datetime
from functools import lru_cache

from tgpu.domain.quantities import MILLI

GPU_HOUR = MILLI * 3600
"""In thousandths of a GPU times seconds."""
QUOTA_NAMES = {"cpu_milli": "cpu", "memory_mib": "mem_mb", "disk_mib": "disk_mb", "gpu_milli": "gpu"}


def decimal(milli: int) -> int | float:
    """1500 → 1.5, 2000 → 2: exact, because no thousandth needs more than a double has."""
    whole, rest = divmod(milli, MILLI)
    return milli / MILLI if rest else whole


def optional_decimal(milli: int | None) -> int | float | None:
    return None if milli is None else decimal(milli)


def gpu_hours(gpu_ms: int) -> int | float:
    """Of thousandths of a GPU times seconds; at most 3 digits."""
    hours = round(gpu_ms / GPU_HOUR, 3)
    return int(hours) if hours.is_integer() else hours


def optional_gpu_hours(gpu_ms: int | None) -> int | float | None:
    return None if gpu_ms is None else gpu_hours(gpu_ms)


def rfc3339(ms: int) -> str:
    seconds, millis = divmod(ms, 1000)
    return f"{_to_the_second(seconds)}.{millis:03d}Z"


@lru_cache(maxsize=1024)  # most times that are shown together are close together
def _to_the_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19]


def optional_rfc3339(ms: int | None) -> str | None:
    return None if ms is None else rfc3339(ms)
