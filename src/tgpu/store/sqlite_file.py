"""Opens the database file: locks it, brings it up to date, and connects to it."""

import fcntl
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sqlalchemy.exc import DBAPIError

from tgpu.observe.disk_space import is_full
from tgpu.store.port import StoreUnusableError
from tgpu.store.revision import must_be_upgraded
from tgpu.store.sql import founding
from tgpu.store.sqlite_errors import cannot_open, damaged, no_room
from tgpu.store.sqlite_session import SqliteSession

_BUSY_TIMEOUT_S = 10.0
_CACHE_KIB = 32_768
_WAL_KEPT_BYTES = 64 * 1024 * 1024
_CHECKED_BYTES = 64 * 1024 * 1024  # looked through in about a tenth of a second


@dataclass(slots=True)
class FileLock:
    """Held as long as the server lives: the kernel gives it up with the process, whatever happens."""

    _descriptor: int

    @classmethod
    def take(cls, path: Path) -> Self:
        lock_path = path.with_name(path.name + ".lock")
        descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreUnusableError(
                f"{path} is in use by the server with process id {holder}: stop that one first, or name"
                " another file"
            ) from None
        with suppress(
            OSError
        ):  # on a full disk the lock holds all the same, and only does not say whose it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        os.close(self._descriptor)


def open_file(path: Path, cluster_id: str) -> tuple[FileLock, sqlite3.Connection, str]:
    """The lock, the connection that writes, and the id the store was founded with."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock.take(path)
    except OSError as error:
        if is_full(error):
            raise no_room(path) from error
        raise StoreUnusableError(
            f"{path} cannot be used ({error.strerror}): name a file in a directory that this user may write"
        ) from error
    try:
        create_private(path)
        check_sound(path)
        bring_up_to_date(path)
        connection = connect_to_write(path)
        return lock, connection, _found(connection, cluster_id)
    except sqlite3.Error as error:
        lock.release()
        raise cannot_open(error, path) from error
    except OSError as error:
        lock.release()
        if is_full(error):
            raise no_room(path) from error
        raise StoreUnusableError(f"{path} cannot be used: {error.strerror}") from error
    except BaseException:
        lock.release()
        raise


def check_not_moved(source: sqlite3.Connection, file: Path) -> None:
    """Raises StoreUnusableError if another store has taken this one's place."""
    (moved_to,) = source.execute("SELECT moved_to FROM meta").fetchone()
    if moved_to is not None:
        raise StoreUnusableError(
            f'{file} was promoted to {moved_to}: start the server with store = "{moved_to}" in tgpu.toml, or'
            f" --store; if the promotion was interrupted, run `tgpu promote --to {moved_to}` again"
        )


def connect_to_write(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "rw")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_KEPT_BYTES}")
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    return _connect(path, "ro")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,  # transactions are begun and ended here, by name
        check_same_thread=False,  # each is used by one thread, and closed by another when that is gone
    )
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def create_private(path: Path) -> None:
    """Jobs carry secrets in their environment: the file, and what SQLite puts beside it, is its user's."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))


def check_sound(path: Path) -> None:
    """Looks a file through at each start if that is quick, and after a crash however long it takes."""
    log = path.with_name(path.name + "-wal")
    crashed = log.exists() and log.stat().st_size > 0
    if path.stat().st_size > _CHECKED_BYTES and not crashed:
        return
    connection = _connect(path, "rw")
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    finally:
        connection.close()
    if verdict != "ok":
        raise StoreUnusableError(damaged(path))


def bring_up_to_date(path: Path) -> None:
    connection = _connect(path, "rw")
    try:
        is_behind = _is_behind(connection, path)
    finally:
        connection.close()
    if is_behind:
        # Alembic takes longer to import than everything else here: most starts do not need it.
        from tgpu.store.migrations.upgrade import sqlite_transaction, upgrade  # noqa: PLC0415

        try:
            with sqlite_transaction(path) as transaction:
                upgrade(transaction)
        except DBAPIError as error:
            raise error.orig or error from error


def _is_behind(connection: sqlite3.Connection, path: Path) -> bool:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return True
    if "alembic_version" not in tables:
        raise StoreUnusableError(f"{path} is the database of another program: name another file")
    (revision,) = connection.execute("SELECT version_num FROM alembic_version").fetchone() or (None,)
    oldest_server = None
    if "compatibility" in tables:
        (oldest_server,) = connection.execute("SELECT oldest_server FROM compatibility").fetchone()
    return must_be_upgraded(revision, oldest_server, str(path))


def _found(connection: sqlite3.Connection, cluster_id: str) -> str:
    connection.execute("BEGIN IMMEDIATE")
    session = SqliteSession(connection)
    founded = founding.found(session, cluster_id)
    session.close()
    connection.execute("COMMIT")
    return founded
