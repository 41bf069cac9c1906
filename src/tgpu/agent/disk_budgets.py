"""Checks of what users write on a node: when they are due, and which tasks are ended.

A task may hold as much in its private /tmp as it reserved, or else as a setting says. All checkpoint folders
of one user have a budget together. When the node runs short of disk space although each task is within its
limit, tasks that reserved no disk are ended, the largest first, until there is space again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from tgpu.observe.disk_space import DiskSpace
from tgpu.runner.disk_usage import MOST_ENTRIES

LOOK_EVERY_S = 1.0
"""At free space, which costs next to nothing."""
EVERY_S, SOON_S = 30.0, 2.0
"""Between two measurements, and if space runs out between them."""
NEAR = 4
"""Free space below this many reserves is near the reserve."""
USED_PART = 4
"""A measurement is due early once this part of the space above the reserve was used since the last one."""
REST = 10
"""A measurement that took long is followed by a pause of this many times as long, so that trees of users take
at most a tenth of one CPU."""
PRESSURE_PART = 4
"""The end of a task that holds less than this part of the reserve would not help."""
MIB = 1 << 20


class Pace:
    """When to measure next. All times are on one clock."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._rest_until = 0.0
        self._free = 0

    def is_due(self, now: float, free: int, reserve: int) -> bool:
        if self._began is None:
            return True
        if now < self._rest_until:
            return False
        is_near = free < NEAR * reserve
        is_falling = (self._free - free) * USED_PART > self._free - reserve
        return now - self._began >= (SOON_S if is_near or is_falling else EVERY_S)

    def measured(self, began: float, ended: float, free: int) -> None:
        """`free`: as it was before."""
        self._began, self._free = began, free
        self._rest_until = ended + REST * (ended - began)


@dataclass(frozen=True, slots=True)
class TmpUse:
    """What a running task holds in its private /tmp."""

    attempt: str
    used_bytes: int
    reserved_mib: int
    limit_mib: int
    is_countable: bool = True

    @property
    def excess(self) -> str:
        """What is too much, in words; empty: nothing is."""
        if self.limit_mib and self.used_bytes > self.limit_mib * MIB:
            whose = "its --disk" if self.reserved_mib else "setting task_disk of its node"
            return (
                f"its /tmp held {in_mib(self.used_bytes)} of at most {self.limit_mib} MiB ({whose}); ask for "
                "more with --disk, or write large files to the working directory or a shared one"
            )
        if self.limit_mib and not self.is_countable:
            return (
                f"its /tmp has more than {MOST_ENTRIES:,} files, or folders nested too deep to be counted; "
                "write fewer and larger files"
            )
        return ""


def ended_for_space(uses: Iterable[TmpUse], reserve: int) -> TmpUse | None:
    """Of tasks within their limits the one that holds most beyond what it reserved; None: none holds enough
    for its end to help."""
    beyond = {use: use.used_bytes - use.reserved_mib * MIB for use in uses}
    largest = max(beyond, key=lambda use: (beyond[use], use.attempt), default=None)
    return largest if largest is not None and beyond[largest] * PRESSURE_PART >= reserve else None


def in_mib(size: int) -> int:
    """Rounded up, so that it never looks like what is allowed."""
    return -(-size // MIB)


async def check_forever(space: DiskSpace, check: Callable[[], Awaitable[None]]) -> None:
    """Until cancelled. `space`: of the filesystem whose free space tells when a check is due."""
    pace, clock = Pace(), asyncio.get_running_loop().time
    while True:
        free = await asyncio.to_thread(space.free_bytes)
        began = clock()
        if pace.is_due(began, free, space.reserve_bytes):
            await check()
            pace.measured(began, clock(), free)
        await asyncio.sleep(LOOK_EVERY_S)
