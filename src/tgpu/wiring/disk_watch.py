"""The disks of a home: the space that is kept for tgpu itself, and work that goes on when a write fails."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tgpu.config.settings import Settings
from tgpu.domain.quantities import mib
from tgpu.observe.disk_space import DiskSpace
from tgpu.observe.logs import logger
from tgpu.store.port import Store, StoreUnavailableError
from tgpu.store.sqlite import SqliteStore

TOP_UP_EVERY_S = 2.0
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


class StoreDisk:
    """The disk of a store that is a file here; a database elsewhere says itself when its disk is full."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._file = store if isinstance(store, SqliteStore) else None
        self._disk = None if self._file is None else disk_of(settings, self._file.path.parent)

    def shortage(self) -> str | None:
        return None if self._disk is None else self._disk.shortage()

    async def keep_reserve(self) -> None:
        """Until cancelled: the database has blocks of its own for the day when the disk is full."""
        while self._file is not None and self._disk is not None:
            await asyncio.to_thread(self._file.keep_reserve, self._disk.reserve_bytes)
            await asyncio.sleep(TOP_UP_EVERY_S)


async def persistently(name: str, work: Callable[[], Awaitable[None]]) -> None:
    """Runs it again after a write or the store failed: a full disk ends no part of a process for good."""
    while True:
        try:
            return await work()
        except (OSError, StoreUnavailableError) as error:
            logger(name).warning("failed, and is tried again", error=str(error), again_in_s=AGAIN_S)
            await asyncio.sleep(AGAIN_S)
