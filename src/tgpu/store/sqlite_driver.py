"""How transactions on a SQLite file are begun, ended and undone: those of its one writer, and of a reader."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tgpu.store.port import StoreUnavailableError
from tgpu.store.sql.session import Session
from tgpu.store.sqlite_errors import advice, unavailable
from tgpu.store.sqlite_file import connect_to_read
from tgpu.store.sqlite_session import SqliteSession

T = TypeVar("T")


class SqliteSavepoints:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def make(self) -> None:
        self._connection.execute("SAVEPOINT piece")

    def undo(self) -> None:
        self._connection.execute("ROLLBACK TO piece")

    def release(self) -> None:
        self._connection.execute("RELEASE piece")


class SqliteDriver:
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.connection, self._path = connection, path
        self.savepoints = SqliteSavepoints(connection)
        self._session = SqliteSession(connection)

    def begin(self) -> Session:
        self.connection.execute("BEGIN IMMEDIATE")
        return self._session

    def commit(self, *, wakes: bool) -> None:  # noqa: ARG002  there is no other server to be told
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        try:
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # it was rolled back by SQLite itself, or the next BEGIN says what is wrong

    def is_passing(self, error: Exception) -> bool:  # noqa: ARG002  as the driver's port has it
        """Nobody else can be in the way."""
        return False

    def is_trouble(self, error: Exception) -> bool:
        return advice(error, self._path) is not None

    def unavailable(self, error: Exception) -> StoreUnavailableError:
        return unavailable(error, self._path)

    def close(self) -> None:
        self._session.close()
        self.connection.close()


class SqliteReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = connect_to_read(path)
        except sqlite3.Error as error:
            raise unavailable(error, path) from error
        self._session = SqliteSession(self._connection)

    def read(self, work: Callable[[Session], T]) -> T:
        try:
            self._connection.execute("BEGIN")
            try:
                return work(self._session)
            finally:
                self._session.end_streams()
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            raise unavailable(error, self._path) from error

    def close(self) -> None:
        self._session.close()
        self._connection.close()
