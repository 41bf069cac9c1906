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


class SqliteStore(SqlStore):
    """Made by `open`; not to be used after `close`."""

    def __init__(self, lock: FileLock, writer: GroupCommit, readers: ReaderPool, cluster_id: str) -> None:
        super().__init__(writer, readers, cluster_id)
        self._lock = lock

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
        except BaseException:
            connection.close()
            lock.release()
            raise
        writer = GroupCommit(SqliteDriver(connection, path))
        return cls(lock, writer, ReaderPool(lambda: SqliteReader(path)), founded_as)

    def _close(self) -> None:
        self._readers.close()
        self._writer.close()  # last: the connection that may write takes the log into the file
        self._lock.release()
