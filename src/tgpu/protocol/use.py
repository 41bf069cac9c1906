"""The course of an attempt's use, as its node keeps it in a file and sends it on: columns of equal length."""

import math
import sys
from array import array
from collections.abc import Mapping

import msgspec

STREAM = "use"
"""By this name it is asked for, in place of an output's."""
SECONDS = "seconds"
"""How long each stretch is; they follow each other without a gap."""
MEANS = ("cpu_milli", "memory_mib", "cache_mib", "swap_mib", "gpu_percent", "gpu_memory_mib")
"""Over a stretch; each has its largest value beside it, in the column of that name with `PEAK`…"""
PEAK = "_peak"
SUMS = ("disk_read_bytes", "disk_written_bytes", "net_received_bytes", "net_sent_bytes")
"""…and these are what came together in it."""
_DOUBLES = "d"
_MAX_COUNT = 2**63 - 1
_MOST_MS = 60_000_000_000_000
"""Some 1,900 years before or after 1970, which can be written as a date: a node's clock may be set back."""


class UseFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`columns`: doubles, as a machine writes them; not a number where nobody could tell, and no column at
    all if that was always so."""

    attempt: str
    started_ms: int
    step_s: float
    """About how long a stretch is; doubled whenever there would be too many."""
    columns: Mapping[str, bytes]
    measured_ms: int = 0
    """Up to when it was looked at."""
    latest: Mapping[str, float] = {}
    """What the last look told, by column; `seconds` is since the one before it."""
    counters: Mapping[str, int] = {}
    """As they stood then; an agent that comes later goes on from there."""
    cpu_us: int = 0
    """In all."""
    periods: int = 0
    throttled: int = 0
    devices: tuple[int, ...] = ()
    gpu_milli: int = 0
    gpu_busy_ms: int | None = None
    busy_devices: tuple[int, ...] = ()
    """Those on which it was ever seen to do something."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(UseFile).decode


def packed(file: UseFile) -> bytes:
    return _encode(file)


def unpacked(data: bytes) -> UseFile | None:
    """None of what is none: nothing, or the half of one, or one with numbers that cannot be."""
    try:
        file = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return file if _is_sound(file) else None


def _is_sound(file: UseFile) -> bool:
    """It was written on a node: its numbers can be shown as times and amounts."""
    counts = (file.cpu_us, file.periods, file.throttled, file.gpu_milli, file.gpu_busy_ms or 0)
    return (
        all(abs(ms) <= _MOST_MS for ms in (file.started_ms, file.measured_ms))
        and all(0 <= count <= _MAX_COUNT for count in counts)
        and math.isfinite(file.step_s)
    )


def doubles(data: bytes) -> "array[float]":
    found: array[float] = array(_DOUBLES)
    found.frombytes(data[: len(data) - len(data) % found.itemsize])
    if sys.byteorder == "big":
        found.byteswap()
    return found


def in_bytes(column: "array[float]") -> bytes:
    if sys.byteorder == "little":
        return column.tobytes()
    turned = column[:]
    turned.byteswap()
    return turned.tobytes()
