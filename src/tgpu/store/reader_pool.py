"""A few threads that read, each on a connection of its own that cannot write."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import local
from typing import TypeVar

from tgpu.store.port import StoreUnavailableError
from tgpu.store.sql.session import Session
from tgpu.store.sqlite_errors import unavailable
from tgpu.store.sqlite_file import connect_to_read, session_on

_READERS = 3

T = TypeVar("T")


class _Own(local):
    """What each thread keeps for itself."""

    connection: sqlite3.Connection | None = None
    session: Session


class ReaderPool:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = ThreadPoolExecutor(_READERS, thread_name_prefix="store-reader")
        self._own = _Own()
        self._opened: list[tuple[Session, sqlite3.Connection]] = []
        self._closed = False

    async def read(self, work: Callable[[Session], T]) -> T:
        if self._closed:
            raise StoreUnavailableError("the store is closed: start the server again")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    def close(self) -> None:
        self._closed = True
        self._threads.shutdown()
        for session, connection in self._opened:
            session.close()
            connection.close()

    def _read(self, work: Callable[[Session], T]) -> T:
        """One transaction, so that everything read is of one moment."""
        try:
            connection, session = self._connected()
            connection.execute("BEGIN")
            try:
                return work(session)
            finally:
                session.end_streams()
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise unavailable(error, self._path) from error

    def _connected(self) -> tuple[sqlite3.Connection, Session]:
        if self._own.connection is None:
            connection = connect_to_read(self._path)
            self._own.session = session_on(connection)
            self._opened.append((self._own.session, connection))
            self._own.connection = connection
        return self._own.connection, self._own.session
