"""How transactions on PostgreSQL are begun, ended and undone, by a writer among others and by a reader.

Rows are locked in one order by everybody: the lease, the epoch (`meta`), nodes, jobs by id, tasks and
attempts, tenants root before leaf, tokens, and last `counters`, which numbers the events and is held until
the commit: so the feed is in the order of commits, and nobody who reads it can pass over an event that is not
visible yet. Whoever changes the tree of tenants holds `meta` alone: no commit is under way then, and jobs may
be written after tenants.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import psycopg
from psycopg import errors

from tgpu.store.port import StoreUnavailableError
from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import READING, WRITING, BoundedConnection
from tgpu.store.postgres_errors import is_passing, is_trouble, unavailable
from tgpu.store.postgres_line import Contact, Line
from tgpu.store.sql.session import Session

T = TypeVar("T")

CHANNEL = "tgpu"
WISHED, HAPPENED = "wished", "happened"
"""What is said on the channel: users asked for something (which is an event too), or events were written."""

_UNHURRIED = "SET LOCAL statement_timeout = 0"
"""A timeout that hits a commit which waits for a standby would have it answered as if the standby had it."""

_END_OTHER = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid = %s AND backend_start = %s
"""
_BORN = "SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"


class PostgresDriver:
    savepoints = None

    def __init__(self, address: PostgresAddress, patience: Patience, contact: Contact) -> None:
        self._line = Line(address, patience, contact, WRITING, "tgpu writer")
        self._line.on_connected = self._end_the_other
        self._backend: tuple[int, object] | None = None
        self._committing = False

    @property
    def backend_pid(self) -> int | None:
        """By which the database tells others who wrote; None while nobody is connected."""
        return self._backend[0] if self._line.is_open and self._backend else None

    def begin(self) -> Session:
        self._committing = False
        if self._line.is_open:
            try:
                return self._begin()
            except psycopg.Error:
                self._line.cut()  # it was cut while nobody wrote: nothing is lost by making it again
        return self._begin()

    def _begin(self) -> Session:
        connection, session = self._line.connected()
        connection.execute("BEGIN", prepare=False)
        return session

    def commit(self, *, wakes: bool) -> None:
        connection, session = self._line.connected()
        told = WISHED if wakes else HAPPENED if session.wrote_events else None
        notify = f"NOTIFY {CHANNEL}, '{told}'; " if told else ""
        self._committing = True
        cursor = connection.execute(f"{_UNHURRIED}; {notify}COMMIT".encode(), prepare=False)
        while cursor.nextset():
            pass
        assert cursor.statusmessage == "COMMIT", "a transaction with an error in it is not committed"
        self._committing = False

    def roll_back(self) -> None:
        self._line.roll_back()

    def is_passing(self, error: Exception) -> bool:
        return is_passing(error)

    def is_trouble(self, error: Exception) -> bool:
        return is_trouble(error)

    def unavailable(self, error: Exception) -> StoreUnavailableError:
        in_doubt = self._committing and not self._line.is_open
        if in_doubt:
            self._settle()
        if isinstance(error, errors.ReadOnlySqlTransaction):
            self._line.cut()  # it leads no more: the next line may find who does
        return unavailable(error, self._line.address, in_doubt=in_doubt)

    def close(self) -> None:
        self._line.cut()

    def _settle(self) -> None:
        """If the database can be asked, the commit has happened or never will before anybody looks."""
        with suppress(psycopg.Error):
            self._line.connected()

    def _end_the_other(self, connection: BoundedConnection) -> None:
        """The transaction of a line that was cut may still be under way at its other end: it would hold its
        locks, or even come to its commit later than what is written from now on."""
        if self._backend is not None:
            connection.execute(_END_OTHER, self._backend)
        born = connection.execute(_BORN).fetchone()
        assert born is not None
        self._backend = (connection.info.backend_pid, born[0])


class PostgresReader:
    def __init__(
        self,
        address: PostgresAddress,
        patience: Patience,
        contact: Contact,
        settings: Mapping[str, str] = READING,
    ) -> None:
        self._line = Line(address, patience.of_a_reader(), contact, settings, "tgpu reader")

    def read(self, work: Callable[[Session], T]) -> T:
        was_open = self._line.is_open
        try:
            return self._read(work)
        except psycopg.Error as error:
            if not was_open or self._line.is_open:
                raise unavailable(error, self._line.address) from error
        try:  # the line was cut meanwhile: reading again harms nobody
            return self._read(work)
        except psycopg.Error as error:
            raise unavailable(error, self._line.address) from error

    def _read(self, work: Callable[[Session], T]) -> T:
        connection, session = self._line.connected()
        try:
            connection.execute("BEGIN", prepare=False)
            return work(session)
        finally:
            self._line.roll_back()

    def close(self) -> None:
        self._line.cut()
