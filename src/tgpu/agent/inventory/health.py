"""Is a GPU well? What was seen and what the driver reported, judged; no I/O but the faults that are kept.

A GPU that was ill is given out again only when it has been well for a while. One whose error needs a reset
stays out until the driver says that it needs none any more; where the driver does not say, until the machine
was restarted or somebody says so.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tgpu.agent.inventory import xids
from tgpu.agent.inventory.faults import Faults
from tgpu.agent.inventory.gpus import Reported, Sight
from tgpu.domain.node import Device
from tgpu.domain.quantities import time_in_words

BLAMED_S = 30.0
"""A program that fails within so long of an error of its GPU failed by that."""
REPLACED = "a row of its memory is replaced at the next reset"


@dataclass(frozen=True, slots=True)
class Limits:
    recovery_s: int
    too_hot_c: int
    """0: never mind."""
    ecc_errors: int


@dataclass(frozen=True, slots=True)
class _Trouble:
    words: str
    is_lost: bool


class Health:
    """Notes do not change from look to look: each change of a node is written down."""

    def __init__(self, limits: Limits, faults: Faults) -> None:
        self._limits = limits
        self._faults = faults
        self._ill: dict[str, tuple[_Trouble, float]] = {}
        """By UUID: the last trouble, and when it was last seen."""
        self._blamed: dict[str, tuple[str, float]] = {}
        self._calm: dict[str, float] = {}
        """Of those that need a reset: since when the driver says that they need none."""

    def reported(self, report: Reported, now: float) -> None:
        if not xids.is_the_gpus_own(report.xid):
            return
        trouble = _Trouble(xids.in_words(report.xid), xids.needs_reset(report.xid))
        self._ill[report.uuid] = trouble, now
        self._blamed[report.uuid] = trouble.words, now
        self._calm.pop(report.uuid, None)
        if trouble.is_lost:
            self._faults.add(report.uuid, report.xid)

    def judged(self, sight: Sight, now: float) -> Device:
        device, trouble = sight.device, next(self._troubles(sight, now), None)
        if trouble is not None:
            self._ill[device.uuid] = trouble, now
            if trouble.is_lost:
                self._blamed[device.uuid] = trouble.words, now
            return replace(device, healthy=False, lost=trouble.is_lost, note=trouble.words)
        last, at = self._ill.get(device.uuid, (None, 0.0))
        if last is not None and now - at < self._limits.recovery_s:
            wait = time_in_words(self._limits.recovery_s)
            note = f"{last.words}; it is given out again when it has been well for {wait}"
            return replace(device, healthy=False, note=note)
        self._ill.pop(device.uuid, None)
        return replace(device, note=REPLACED) if sight.remap_pending else device

    def blamed(self, uuid: str, now: float) -> str | None:
        """What is wrong with it, or was just now, if programs fail by that."""
        words, at = self._blamed.get(uuid, ("", 0.0))
        return words if words and now - at < BLAMED_S else None

    def _troubles(self, sight: Sight, now: float) -> Iterator[_Trouble]:
        limits, uuid = self._limits, sight.device.uuid
        if sight.trouble:
            yield _Trouble(sight.trouble, sight.is_lost)
        xid = self._faults.of(uuid)
        if xid is not None:
            if not self._has_calmed(sight, now):
                yield _Trouble(f"{xids.in_words(xid)}; it needs a reset", is_lost=True)
            self._faults.forget(uuid)
            self._ill.pop(uuid, None)
        if sight.asks_for:
            yield _Trouble(f"the driver asks for {sight.asks_for}", is_lost=True)
        if sight.remap_failed:
            yield _Trouble("bad rows of its memory can no longer be replaced", is_lost=False)
        if (sight.ecc_uncorrected or 0) > limits.ecc_errors:
            words = f"its memory has had more than {limits.ecc_errors} errors that could not be corrected"
            yield _Trouble(words, is_lost=True)
        if limits.too_hot_c and (sight.temperature_c or 0) >= limits.too_hot_c:
            yield _Trouble(f"it is at {limits.too_hot_c} °C or more", is_lost=False)

    def _has_calmed(self, sight: Sight, now: float) -> bool:
        """By the driver's word, for as long as any other must be well: it may come later than the Xid."""
        if sight.trouble or sight.asks_for != "":
            self._calm.pop(sight.device.uuid, None)
            return False
        return now - self._calm.setdefault(sight.device.uuid, now) >= self._limits.recovery_s
