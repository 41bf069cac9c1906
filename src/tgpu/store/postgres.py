"""The store on PostgreSQL: several servers write at the same time, each with one writer and a few readers."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Self

import psycopg

from tgpu.store.group_commit import GroupCommit
from tgpu.store.port import Changes
from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import FOLLOWING
from tgpu.store.postgres_driver import HAPPENED, WISHED, PostgresDriver, PostgresReader
from tgpu.store.postgres_errors import cannot_open
from tgpu.store.postgres_line import Contact
from tgpu.store.postgres_listener import PostgresListener
from tgpu.store.postgres_schema import make_ready
from tgpu.store.reader_pool import ReaderPool
from tgpu.store.sql import lease, world
from tgpu.store.sql_store import SqlStore

_PATIENCE = Patience()


class PostgresStore(SqlStore):
    """Made by `open`; not to be used after `close`."""

    def __init__(
        self,
        writer: GroupCommit,
        lease_writer: GroupCommit,
        readers: ReaderPool,
        follower: ReaderPool,
        *,
        listener: PostgresListener,
        cluster_id: str,
    ) -> None:
        super().__init__(writer, readers, cluster_id)
        self._lease_writer, self._follower = lease_writer, follower
        self._listener = listener

    @classmethod
    async def open(cls, url: str, *, cluster_id: str | None = None, patience: Patience = _PATIENCE) -> Self:
        """`cluster_id` is for an empty database; made up if it is not given. Raises StoreUnusableError if
        somebody has to do something first, StoreUnavailableError if the database may be there later."""
        store = await asyncio.to_thread(cls._open, url, cluster_id or uuid.uuid4().hex, patience)
        await store.let_history_follow()
        return store

    @classmethod
    def _open(cls, url: str, cluster_id: str, patience: Patience) -> Self:
        address = PostgresAddress.parse(url)
        founded_as = make_ready(address, patience, cluster_id)
        contact = Contact()
        driver = PostgresDriver(address, patience, contact)
        try:
            listener = PostgresListener(address, patience, contact, lambda: driver.backend_pid)
        except psycopg.Error as error:
            raise cannot_open(error, address) from error
        readers = ReaderPool(lambda: PostgresReader(address, patience, contact))
        follower = ReaderPool(lambda: PostgresReader(address, patience, contact, FOLLOWING), threads=1)
        lease_writer = GroupCommit(PostgresDriver(address, patience, contact))
        writer = GroupCommit(driver)
        return cls(writer, lease_writer, readers, follower, listener=listener, cluster_id=founded_as)

    async def renew(self, epoch: int, ttl_ms: int) -> bool:
        """On a line of its own: nobody loses the lease because there is much to write."""
        return await self._lease_writer.write(lambda session: lease.renew(session, epoch, ttl_ms))

    async def changes(self, after_seq: int, limit: int = 5000) -> Changes:
        """On a line of its own: no turn waits for what others read."""
        return await self._follower.read(lambda session: world.changes(session, after_seq, limit))

    def subscribe(self, wake: Callable[[], None]) -> None:
        """To be called on the event loop. What this store writes wakes from here, what others do by the
        database."""
        super().subscribe(wake)
        self._listener.subscribe(WISHED, wake)

    def subscribe_events(self, wake: Callable[[], None]) -> None:
        """To be called on the event loop, as `subscribe`."""
        super().subscribe_events(wake)
        self._listener.subscribe(HAPPENED, wake)

    def _close(self) -> None:
        self._listener.close()
        self._readers.close()
        self._follower.close()
        self._writer.close()
        self._lease_writer.close()
