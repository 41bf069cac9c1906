"""A few threads that read, each on a connection of its own that cannot write."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import Protocol, TypeVar

from tgpu.store.port import StoreUnavailableError
from tgpu.store.sql.session import Session

_READERS = 3

T = TypeVar("T")


class Reader(Protocol):
    """One connection, used by one thread, and closed by another when that is gone."""

    def read(self, work: Callable[[Session], T]) -> T:
        """In one transaction, so that everything read is of one moment. Raises StoreUnavailableError."""
        ...

    def close(self) -> None: ...


class _Own(local):
    """What each thread keeps for itself."""

    reader: Reader | None = None


class ReaderPool:
    def __init__(self, new_reader: Callable[[], Reader], threads: int = _READERS) -> None:
        """`new_reader` is called once in each thread, by its first reading; it may raise
        StoreUnavailableError."""
        self._new_reader = new_reader
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store-reader")
        self._own = _Own()
        self._opened: list[Reader] = []
        self._closed = False

    async def read(self, work: Callable[[Session], T]) -> T:
        if self._closed:
            raise StoreUnavailableError("the store is closed: start the server again")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown()
        for reader in self._opened:
            reader.close()

    def _read(self, work: Callable[[Session], T]) -> T:
        if self._own.reader is None:
            self._own.reader = self._new_reader()
            self._opened.append(self._own.reader)
        return self._own.reader.read(work)
