"""Store disk: free space of the filesystem of a store that is a file on this machine."""

import asyncio

from tgpu.config.settings import Settings
from tgpu.store.port import Store
from tgpu.store.sqlite import SqliteStore
from tgpu.wiring.disk_watch import disk_of

TOP_UP_EVERY_S = 2.0


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
