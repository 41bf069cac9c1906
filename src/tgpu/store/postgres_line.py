"""A line to the database that is made again when it is cut, at once the first time and then ever more
slowly."""

import math
from collections.abc import Callable, Mapping
from time import monotonic

import psycopg
from psycopg.pq import TransactionStatus

from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import BoundedConnection, connect
from tgpu.store.postgres_session import PostgresSession

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
_WELL = (TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR)


class Contact:
    """Shared by the lines of a store: when one of them has reached the database, the others need not wait."""

    def __init__(self) -> None:
        self.made_at = -math.inf


class Line:
    """Used by one thread."""

    def __init__(
        self,
        address: PostgresAddress,
        patience: Patience,
        contact: Contact,
        settings: Mapping[str, str],
        name: str,
    ) -> None:
        self._contact = contact
        self.address, self._patience, self._settings, self._name = address, patience, settings, name
        self._open: tuple[BoundedConnection, PostgresSession] | None = None
        self._pause_s, self._refused_at = 0.0, -math.inf
        self._refusal: psycopg.Error | None = None
        self.on_connected: Callable[[BoundedConnection], None] = lambda _: None
        """Called with every new connection, before anybody uses it; may raise psycopg.Error."""

    @property
    def is_open(self) -> bool:
        return self._open is not None

    @property
    def pause_s(self) -> float:
        """How long until it makes sense to try again."""
        if self._contact.made_at > self._refused_at:
            return 0.0
        return max(0.0, self._refused_at + self._pause_s - monotonic())

    def connected(self) -> tuple[BoundedConnection, PostgresSession]:
        """Raises psycopg.Error: at once, if it failed a moment ago."""
        if self._open is None:
            if self._refusal is not None and self.pause_s:
                raise self._refusal.with_traceback(None)
            self._open = self._connect()
        return self._open

    def _connect(self) -> tuple[BoundedConnection, PostgresSession]:
        connection: BoundedConnection | None = None
        try:
            connection = connect(self.address, self._patience, self._settings, name=self._name)
            self.on_connected(connection)
        except psycopg.Error as error:
            if connection is not None:
                connection.close()
            self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
            self._refused_at, self._refusal = monotonic(), error
            raise
        self._contact.made_at = monotonic()
        self._pause_s, self._refusal = 0.0, None
        return connection, PostgresSession(connection)

    def roll_back(self) -> None:
        """Ends the transaction, if there is one: by cutting the line if need be. Never raises."""
        if self._open is None:
            return
        connection, session = self._open
        try:
            session.end_streams()
            status = connection.info.transaction_status
            if status in _WELL and not connection.broken:
                if status is not TransactionStatus.IDLE:
                    connection.execute("ROLLBACK", prepare=False)
                return
        except psycopg.Error:
            pass
        self.cut()

    def cut(self) -> None:
        if self._open is not None:
            connection, session = self._open
            self._open = None
            session.close()
            connection.close()
