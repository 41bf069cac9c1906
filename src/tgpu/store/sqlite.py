"""The store in one file: SQLite with one writer, a few readers, and every answer after its commit."""

import asyncio
import uuid
from pathlib import Path
from typing import Self

from tgpu.store.group_commit import GroupCommit
from tgpu.store.reader_pool import ReaderPool
from tgpu.store.sql_store import SqlStore
from tgpu.store.sqlite_driver import SqliteDriver, SqliteReader
from tgpu.store.sqlite_file import FileLock, check_not_moved, open_file
from tgpu.store.sqlite_reserve import SqliteReserve


class SqliteStore(SqlStore):
    """Made by `open`; not to be used after `close`."""

    def __init__(
        self,
        lock: FileLock,
        reserve: SqliteReserve,
        writer: GroupCommit,
        readers: ReaderPool,
        cluster_id: str,
    ) -> None:
        super().__init__(writer, readers, cluster_id)
        self._lock, self._reserve = lock, reserve

    @classmethod
    async def open(cls, path: Path, *, cluster_id: str | None = None) -> Self:
        """`cluster_id` is for a new file; made up if it is not given. Raises StoreUnusableError."""
        store = await asyncio.to_thread(cls._open, path, cluster_id or uuid.uuid4().hex)
        await store.let_history_follow()
        return store

    @classmethod
    def _open(cls, path: Path, cluster_id: str) -> Self:
        lock, connection, founded_as = open_file(path, cluster_id)
        try:
            check_not_moved(connection, path)
            reserve = SqliteReserve(path)
        except BaseException:
            connection.close()
            lock.release()
            raise
        writer = GroupCommit(SqliteDriver(connection, path))
        return cls(lock, reserve, writer, ReaderPool(lambda: SqliteReader(path)), founded_as)

    @property
    def path(self) -> Path:
        return self._reserve.path

    def keep_reserve(self, reserve_bytes: int) -> None:
        """Takes blocks of the disk for the database before it needs them. Blocks."""
        self._reserve.top_up(reserve_bytes)

    def _close(self) -> None:
        self._readers.close()
        self._writer.close()  # last: the connection that may write takes the log into the file
        self._reserve.close()
        self._lock.release()
