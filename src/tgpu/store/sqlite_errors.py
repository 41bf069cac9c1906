"""What SQLite's errors mean for whoever runs the server, and what they can do about it."""

import sqlite3
from pathlib import Path

from tgpu.store.port import StoreFullError, StoreUnavailableError, StoreUnusableError

_PRIMARY = 0xFF  # the low byte of an extended error code says what kind it is
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk that holds {path} is full: free some room there and try again",
    sqlite3.SQLITE_IOERR: "the disk that holds {path} reports an error: look at the kernel log, then"
    " try again",
    sqlite3.SQLITE_READONLY: "{path} cannot be written: check that its file system is mounted read-write and"
    " that this user owns it and its directory",
    sqlite3.SQLITE_CANTOPEN: "{path} cannot be opened: check that its directory exists and that this user may"
    " write there",
    sqlite3.SQLITE_PERM: "{path} cannot be opened: check that this user owns it and its directory",
    sqlite3.SQLITE_BUSY: "another program keeps {path} locked: close it and try again",
    sqlite3.SQLITE_LOCKED: "another program keeps {path} locked: close it and try again",
    sqlite3.SQLITE_NOMEM: "there is no memory left to work on {path}: free some and try again",
    sqlite3.SQLITE_CORRUPT: "{path} is damaged: stop the server and restore it from a backup, or move it away"
    " to begin anew",
    sqlite3.SQLITE_NOTADB: "{path} is not a database: move it away, or name another file",
}

_PASSING = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM)


def advice(error: Exception, path: Path) -> str | None:
    """What to do, if the error concerns the file or its disk rather than one request."""
    text = _ADVICE.get(_primary(error))
    return None if text is None else text.format(path=path)


def _primary(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_OK)
    return code & _PRIMARY


def damaged(path: Path) -> str:
    return _ADVICE[sqlite3.SQLITE_CORRUPT].format(path=path)


def unavailable(error: Exception, path: Path) -> StoreUnavailableError:
    """For a transaction that was rolled back."""
    kind = StoreFullError if _primary(error) == sqlite3.SQLITE_FULL else StoreUnavailableError
    return kind(advice(error, path) or str(error), "nothing was changed")


def cannot_open(error: Exception, path: Path) -> StoreUnusableError | StoreUnavailableError:
    """The second if it may pass by itself."""
    if _primary(error) in _PASSING:
        return unavailable(error, path)
    return unusable(error, path)


def unusable(error: Exception, path: Path) -> StoreUnusableError:
    return StoreUnusableError(advice(error, path) or f"{path} cannot be opened: {error}")


def no_room(path: Path) -> StoreFullError:
    return StoreFullError(_ADVICE[sqlite3.SQLITE_FULL].format(path=path), "nothing was changed")
