"""How busy an attempt kept its GPUs: what each device was measured to do, split among those that share it.

A device is asked now and then how busy it is, and counts as that busy since it was asked last. Nothing is
kept on disk: of an attempt that outlives its agent, or that ends before it was ever looked at, nothing is
known.
"""

from collections.abc import Mapping
from dataclasses import dataclass

WHOLE = 1000


@dataclass(slots=True)
class _Metered:
    devices: tuple[int, ...]
    share: int
    """Of each of its devices, against the shares of others there."""
    since: float
    """Up to when it was measured."""
    busy_s: float = 0.0
    is_measured: bool = False


class GpuMeter:
    def __init__(self) -> None:
        self._running: dict[str, _Metered] = {}
        self._percent: dict[int, int] = {}
        """By device, as it was seen last."""

    def launched(self, attempt: str, devices: tuple[int, ...], gpu_milli: int, now: float) -> None:
        if devices:  # by memory alone it has no share of its own: it counts as all of the device
            share = gpu_milli // len(devices) or WHOLE
            self._running[attempt] = _Metered(devices, share, now)

    def seen(self, percent: Mapping[int, int | None], now: float) -> None:
        """By device; None if it does not tell."""
        self._percent = {index: busy for index, busy in percent.items() if busy is not None}
        for metered in self._running.values():
            self._count(metered, now)

    def ended(self, attempt: str, now: float) -> int | None:
        """Busy milliseconds of its devices, added up; the last stretch by what was seen last."""
        metered = self._running.get(attempt)
        if metered is None:
            return None
        if metered.is_measured:
            self._count(metered, now)
        del self._running[attempt]
        return round(1000 * metered.busy_s) if metered.is_measured else None

    def _count(self, metered: _Metered, now: float) -> None:
        if all(index in self._percent for index in metered.devices):
            busy = sum(self._percent[index] * self._part(metered, index) for index in metered.devices)
            metered.busy_s += busy / 100 * (now - metered.since)
            metered.is_measured = True
        metered.since = now

    def _part(self, metered: _Metered, index: int) -> float:
        shares = sum(other.share for other in self._running.values() if index in other.devices)
        return metered.share / shares
