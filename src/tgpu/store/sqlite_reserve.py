"""Blocks of the disk that belong to the database before it needs them.

A user who fills the disk cannot take them: with them the store goes on recording ends, cancellations and
removals while nothing else can be written. They lie behind the end of the database file and of its log, so
neither looks larger than it is. A filesystem that copies on write gives no such promise.
"""

import os
from pathlib import Path

from tgpu.observe.disk_space import allocate

_LEAST_BYTES, _MOST_BYTES = 1 << 20, 8 << 20
_PART = 4
"""Of the reserve, for each of the two files."""


class SqliteReserve:
    """To be closed after the database: a process that closes a file gives up all locks that it has on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = path.with_name(path.name + "-wal")
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def top_up(self, reserve_bytes: int) -> None:
        """As far as there is space; what cannot be had now is had later."""
        if not reserve_bytes:
            return
        size = min(max(reserve_bytes // _PART, _LEAST_BYTES), _MOST_BYTES)
        allocate(self._descriptor, os.fstat(self._descriptor).st_size, size)
        try:
            log = os.open(self._log, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            allocate(log, os.fstat(log).st_size, size)
        finally:
            os.close(log)

    def close(self) -> None:
        os.close(self._descriptor)
