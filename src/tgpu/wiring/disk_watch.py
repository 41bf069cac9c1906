"""The disks of a home: the space that is kept for tgpu itself, and work that goes on when a write fails."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tgpu.config.settings import Settings
from tgpu.domain.quantities import mib
from tgpu.observe.disk_space import DiskSpace
from tgpu.observe.logs import logger

AGAIN_S = 5.0
SHARE = 4
"""By default a task, or the checkpoints of a user, may take this part of a filesystem."""
_MIB = 1 << 20


def disk_of(settings: Settings, path: Path | None = None) -> DiskSpace:
    """Of the home, unless another path is meant."""
    said = settings.disk_reserve
    return DiskSpace(path or settings.home, None if said == "auto" else mib("disk_reserve", said))


def budget_bytes(name: str, said: str, space: DiskSpace) -> int:
    """What a setting allows on that filesystem; 0: no limit. Raises OSError."""
    return space.total_bytes() // SHARE if said == "auto" else mib(name, said) * _MIB


async def persistently(
    name: str, work: Callable[[], Awaitable[None]], failures: tuple[type[Exception], ...] = (OSError,)
) -> None:
    """Runs it again after one of these failures: a full disk ends no part of a process permanently."""
    while True:
        try:
            return await work()
        except failures as error:
            logger(name).warning("failed, will retry", error=str(error), again_in_s=AGAIN_S)
            await asyncio.sleep(AGAIN_S)
