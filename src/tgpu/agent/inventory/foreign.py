"""Who uses a GPU outside of tgpu, told steadily: a flicker is nobody's use, and no news."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tgpu.domain.node import Device, ForeignUse

LOOKS_BEFORE = 2
"""So often in a row a process must be seen before it counts…"""
LOOKS_AFTER = 3
"""…and be missed, before it counts no more."""
MOST_TOLD = 8
_STEP_MIB = 256
_SLACK_MIB = 512


@dataclass(slots=True)
class _Seen:
    use: ForeignUse
    looks: int = 0
    missed: int = 0

    @property
    def counts(self) -> bool:
        return self.looks >= LOOKS_BEFORE


class ForeignUsers:
    def __init__(self, floor_mib: int, *, avoid: bool) -> None:
        self._floor_mib = floor_mib
        self._avoid = avoid
        self._seen: dict[tuple[int, int], _Seen] = {}
        """By device and process."""
        self._known: set[int] = set()
        """Devices that were looked at before: whoever is there at the first look has been there."""

    def marked(self, device: Device, uses: Iterable[ForeignUse]) -> Device:
        """The device with those who use it, in this look and in those before; called once per look."""
        now = {use.pid: use for use in uses}
        for pid, use in now.items():
            seen = self._seen.setdefault((device.index, pid), _Seen(use))
            seen.use = _steady(seen.use, use)
            seen.looks += 1 if device.index in self._known else LOOKS_BEFORE
            seen.missed = 0
        self._known.add(device.index)
        here = {pid: seen for (index, pid), seen in self._seen.items() if index == device.index}
        for pid in here.keys() - now.keys():
            here[pid].missed += 1
            if not here[pid].counts or here[pid].missed >= LOOKS_AFTER:
                del self._seen[device.index, pid], here[pid]
        told = [seen.use for _, seen in sorted(here.items()) if seen.counts]
        if not told or sum(use.memory_mib or self._floor_mib for use in told) < self._floor_mib:
            return device
        return replace(device, foreign=tuple(told[:MOST_TOLD]), avoided=self._avoid)


def _steady(before: ForeignUse, now: ForeignUse) -> ForeignUse:
    """Its memory as it was told, unless it is now quite another amount."""
    slack = max(_SLACK_MIB, before.memory_mib // 4)
    if before.memory_mib % _STEP_MIB == 0 and abs(now.memory_mib - before.memory_mib) <= slack:
        return replace(now, memory_mib=before.memory_mib)
    rounded = _STEP_MIB * max(1, round(now.memory_mib / _STEP_MIB)) if now.memory_mib else 0
    return replace(now, memory_mib=rounded)
