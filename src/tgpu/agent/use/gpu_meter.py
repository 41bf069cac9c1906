"""How busy an attempt kept its GPUs, and how full: by its own processes where the driver tells them apart,
else by what each device was measured to do, split among those that share it.

A device is asked now and then how busy it is, and counts as that busy since it was asked last. Of an attempt
that ends before it was ever looked at, nothing is known.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

WHOLE = 1000


class DeviceShares(NamedTuple):
    """What attempts do on one device, as the driver tells it of their processes."""

    percent: Mapping[str, int] | None
    """Who is not among them does nothing there; None: it does not tell."""
    memory_mib: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GpuNow:
    """What is known of one attempt; nothing, of one without devices."""

    percent: float | None = None
    """Of its devices, added up: 200 is two of them, wholly busy."""
    memory_mib: int | None = None
    """On the fullest of them."""
    busy_ms: int | None = None
    """In all."""
    devices: tuple[int, ...] = ()
    gpu_milli: int = 0
    busy_devices: tuple[int, ...] = ()


NO_GPU = GpuNow()


@dataclass(slots=True)
class _Metered:
    devices: tuple[int, ...]
    gpu_milli: int
    since: float
    """Up to when it was measured."""
    busy_s: float = 0.0
    is_measured: bool = False
    busy_devices: set[int] = field(default_factory=set)

    @property
    def share(self) -> int:
        """Of each of its devices, against the shares of others there. By memory alone it has none of its own:
        then it counts as all of the device."""
        return self.gpu_milli // len(self.devices) or WHOLE


class GpuMeter:
    def __init__(self) -> None:
        self._running: dict[str, _Metered] = {}
        self._percent: dict[int, int] = {}
        """By device, as it was seen last."""
        self._memory_mib: dict[int, int] = {}
        self._shares: Mapping[int, DeviceShares] = {}
        self._load: dict[int, tuple[int, int]] = {}
        """By device: the shares of all who are there, and how many they are."""

    def launched(self, attempt: str, devices: tuple[int, ...], gpu_milli: int, now: float) -> None:
        if devices:
            self._add(attempt, _Metered(devices, gpu_milli, now))

    def resumed(self, attempt: str, before: GpuNow, now: float) -> None:
        """It outlived the agent that has counted so far."""
        if before.devices:
            metered = _Metered(
                before.devices,
                before.gpu_milli,
                now,
                busy_s=(before.busy_ms or 0) / 1000,
                is_measured=before.busy_ms is not None,
                busy_devices=set(before.busy_devices),
            )
            self._add(attempt, metered)

    def seen(
        self,
        percent: Mapping[int, int | None],
        now: float,
        memory_mib: Mapping[int, int | None] | None = None,
    ) -> None:
        """By device; None if it does not tell."""
        self._percent = {index: busy for index, busy in percent.items() if busy is not None}
        self._memory_mib = {index: used for index, used in (memory_mib or {}).items() if used is not None}
        self._count_all(now)

    def told(self, shares: Mapping[int, DeviceShares], now: float) -> None:
        """By device: what the driver says of processes there."""
        self._shares = shares
        self._count_all(now)

    @property
    def has_any(self) -> bool:
        return bool(self._running)

    def devices(self, attempt: str) -> tuple[int, ...]:
        metered = self._running.get(attempt)
        return () if metered is None else metered.devices

    def now(self, attempt: str) -> GpuNow:
        metered = self._running.get(attempt)
        if metered is None:
            return NO_GPU
        percents = [self._percent_of(attempt, metered, index) for index in metered.devices]
        told = [percent for percent in percents if percent is not None]
        fills = [self._memory_of(attempt, index) for index in metered.devices]
        return GpuNow(
            percent=sum(told) if len(told) == len(percents) else None,
            memory_mib=max((fill for fill in fills if fill is not None), default=None),
            busy_ms=round(1000 * metered.busy_s) if metered.is_measured else None,
            devices=metered.devices,
            gpu_milli=metered.gpu_milli,
            busy_devices=tuple(sorted(metered.busy_devices)),
        )

    def ended(self, attempt: str, now: float) -> int | None:
        """Busy milliseconds of its devices, added up; the last stretch by what was seen last."""
        metered = self._running.get(attempt)
        if metered is None:
            return None
        if metered.is_measured:
            self._count(attempt, metered, now)
        self._remove(attempt)
        return round(1000 * metered.busy_s) if metered.is_measured else None

    def _add(self, attempt: str, metered: _Metered) -> None:
        self._remove(attempt)
        self._running[attempt] = metered
        for index in metered.devices:
            shares, users = self._load.get(index, (0, 0))
            self._load[index] = shares + metered.share, users + 1

    def _remove(self, attempt: str) -> None:
        metered = self._running.pop(attempt, None)
        if metered is None:
            return
        for index in metered.devices:
            shares, users = self._load[index]
            self._load[index] = shares - metered.share, users - 1

    def _count_all(self, now: float) -> None:
        for attempt, metered in self._running.items():
            self._count(attempt, metered, now)

    def _count(self, attempt: str, metered: _Metered, now: float) -> None:
        percents = {index: self._percent_of(attempt, metered, index) for index in metered.devices}
        known = [percent for percent in percents.values() if percent is not None]
        if len(known) == len(percents):
            metered.busy_s += sum(known) / 100 * (now - metered.since)
            metered.is_measured = True
        metered.busy_devices.update(index for index, percent in percents.items() if percent)
        metered.since = now

    def _percent_of(self, attempt: str, metered: _Metered, index: int) -> float | None:
        told = self._shares.get(index, _UNTOLD).percent
        if told is not None:
            return told.get(attempt, 0)
        if index not in self._percent:
            return None
        return self._percent[index] * metered.share / self._load[index][0]

    def _memory_of(self, attempt: str, index: int) -> int | None:
        """Of a device that it has to itself, all that is in use there."""
        told = self._shares.get(index, _UNTOLD).memory_mib
        if told:
            return told.get(attempt, 0)
        return self._memory_mib.get(index) if self._load[index][1] == 1 else None


_UNTOLD = DeviceShares(None, {})
