"""Copies of the database file: made while the server writes, and put back in its place."""

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tgpu.store.port import StoreUnusableError
from tgpu.store.sql import restoring
from tgpu.store.sql.restoring import GivenOut
from tgpu.store.sqlite_errors import unusable
from tgpu.store.sqlite_file import (
    FileLock,
    bring_up_to_date,
    check_sound,
    connect_to_read,
    connect_to_write,
    create_private,
)
from tgpu.store.sqlite_session import SqliteSession

_BESIDE = ("-wal", "-shm", "-journal")


class CopyError(Exception):
    """Nothing was changed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy holds."""

    cluster_id: str
    jobs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Restored:
    cluster_id: str
    jobs: int
    epoch: int
    kept_as: Path | None
    """Where the file that was there before is now; None if there was none."""
    forgotten: list[int]
    """Jobs that the file before knew and the copy does not."""
    changed: list[int]
    """Jobs that both know, and that stand otherwise in the copy."""


def back_up(file: Path, to: Path) -> Copied:
    """The state of one moment; a server may go on writing meanwhile. Raises CopyError, StoreUnusableError."""
    if not file.exists():
        raise CopyError(f"there is no {file}: nothing was ever kept here")
    if to.exists():
        raise CopyError(f"{to} is there already: name a new file, a backup never replaces another")
    unfinished = to.with_name(to.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        copied = _copy(file, unfinished)
        _sync(unfinished)
        os.link(unfinished, to)  # fails if somebody else has made it meanwhile
        _sync(to.parent)
    except FileExistsError:
        raise CopyError(f"{to} is there already: name a new file") from None
    except OSError as error:
        raise CopyError(f"{to} cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return copied


def _copy(file: Path, to: Path) -> Copied:
    create_private(to)  # it holds whatever secrets jobs have in their environment
    with (
        _errors(file),
        contextlib.closing(connect_to_read(file)) as source,
        contextlib.closing(sqlite3.connect(to)) as target,
    ):
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, complete in itself
        (verdict,) = target.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise CopyError(f"{file} is damaged, and so would be a copy of it: {verdict}")
        (cluster_id,) = target.execute("SELECT cluster_id FROM meta").fetchone()
        (jobs,) = target.execute("SELECT count(*) FROM jobs").fetchone()
    return Copied(cluster_id, jobs, to.stat().st_size)


def put_back(file: Path, copy: Path, at_ms: int, *, of_another: bool = False) -> Restored:
    """In the place of the database file, which is kept beside it. `of_another`: the copy may be of another
    cluster. Raises CopyError, or StoreUnusableError, as while a server holds the file."""
    if not copy.exists():
        raise CopyError(f"there is no {copy}")
    file.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock.take(file)
    fresh = file.with_name(file.name + ".restoring")
    try:
        _remove(fresh)
        _copy(copy, fresh)
        check_sound(fresh)
        bring_up_to_date(fresh)
        before = _before(file)
        restored = _prepare(fresh, before, at_ms, of_another=of_another)
        kept_as = _put_aside(file)
        fresh.replace(file)
        _sync(file.parent)
        return Restored(*restored, kept_as, *_differences(file, kept_as))
    except OSError as error:
        raise CopyError(f"{error.filename or file} cannot be written: {error.strerror}") from error
    finally:
        _remove(fresh)
        lock.release()


def _before(file: Path) -> tuple[str, GivenOut] | None:
    """What the file that is replaced has given out; None if it cannot be told any more. Raises CopyError."""
    if not file.exists() or not file.stat().st_size:
        return None
    try:
        with contextlib.closing(connect_to_write(file)) as connection:
            session = SqliteSession(connection)
            cluster_id, moved_to = connection.execute("SELECT cluster_id, moved_to FROM meta").fetchone()
            found = restoring.given_out(session)
            session.close()
    except (sqlite3.Error, StoreUnusableError):
        return None
    if moved_to is not None:  # a copy in its place would be a second store of the same cluster
        raise CopyError(
            f"this installation was moved to {moved_to}: put that database back with pg_restore, then say"
            f" `tgpu restore --database`; or, if that database is given up for good, move {file} away first"
        )
    return cluster_id, found


def _prepare(
    fresh: Path, before: tuple[str, GivenOut] | None, at_ms: int, *, of_another: bool
) -> tuple[str, int, int]:
    """(cluster, jobs, epoch) of what is put back, made ready for servers and nodes that have seen more."""
    with _errors(fresh), contextlib.closing(connect_to_write(fresh)) as connection:
        (cluster_id,) = connection.execute("SELECT cluster_id FROM meta").fetchone()
        if before is not None and before[0] != cluster_id and not of_another:
            raise CopyError(
                "the copy is of another cluster, whose nodes and jobs have nothing to do with those here: say"
                " --other-cluster if it is to take their place"
            )
        connection.execute("BEGIN IMMEDIATE")
        session = SqliteSession(connection)
        replaced = before[1] if before is not None and before[0] == cluster_id else None
        restoring.mark(session, at_ms, restoring.newest_event_ms(session), replaced)
        found = restoring.given_out(session)
        session.close()
        connection.execute("COMMIT")
        (jobs,) = connection.execute("SELECT count(*) FROM jobs").fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _sync(fresh)
    return cluster_id, jobs, found.epoch


def _put_aside(file: Path) -> Path | None:
    if not file.exists():
        return None
    kept_as = file.with_name(f"{file.name}.replaced-{time.strftime('%Y%m%d-%H%M%S')}")
    for end in ("", *_BESIDE):
        part = file.with_name(file.name + end)
        if part.exists():
            part.rename(kept_as.with_name(kept_as.name + end))
    return kept_as


def _differences(file: Path, kept_as: Path | None) -> tuple[list[int], list[int]]:
    """(jobs that are forgotten, jobs that stand otherwise): whoever owns them should hear of it."""
    if kept_as is None:
        return [], []
    try:
        with contextlib.closing(connect_to_read(file)) as connection:
            connection.execute("ATTACH DATABASE ? AS old", (f"{kept_as.absolute().as_uri()}?mode=ro",))
            forgotten = connection.execute(
                "SELECT job_id FROM old.jobs"
                " WHERE job_id NOT IN (SELECT job_id FROM main.jobs) ORDER BY job_id"
            ).fetchall()
            changed = connection.execute(
                "SELECT job_id FROM old.jobs JOIN main.jobs USING (job_id)"
                " WHERE old.jobs.status <> main.jobs.status ORDER BY job_id"
            ).fetchall()
    except sqlite3.Error:
        return [], []  # it could not be read before either
    return [job_id for (job_id,) in forgotten], [job_id for (job_id,) in changed]


def _remove(path: Path) -> None:
    for end in ("", *_BESIDE):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise unusable(error, path) from error
