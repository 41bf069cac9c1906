"""Free space of a filesystem, compared with the reserve that users' data may not use up."""

import ctypes
import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
MEASURE_EVERY_S = 0.5
_MIB = 1 << 20
_AUTO_PART, _AUTO_MOST = 50, 256 * _MIB
_SPARE_INODES, _INODE_PART = 1000, 100
_KEEP_SIZE = 1
_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_RETURN_PART = 4
"""Once short, a filesystem counts as short until it has this part of the reserve more than the reserve."""


def allocate(descriptor: int, offset: int, size: int) -> None:
    """Takes blocks for that part of a file without making it longer. Errors are no news: a filesystem that is
    full, or cannot do it, has no reserve."""
    _fallocate(descriptor, _KEEP_SIZE, offset, size)


def is_full(error: BaseException) -> bool:
    """Whether it was caused by a full disk or an exhausted disk quota."""
    return isinstance(error, OSError) and error.errno in FULL


class DiskSpace:
    """One filesystem. Measured at most twice per second; may be asked from any thread."""

    def __init__(
        self, path: Path, reserve_mib: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`reserve_mib`: None is 2 % of the filesystem, at most 256 MiB; 0 is no reserve."""
        self._path, self._reserve_mib, self._clock = path, reserve_mib, clock
        self._next = -1.0
        self._shortage: str | None = None

    @property
    def reserve_bytes(self) -> int:
        if self._reserve_mib is not None:
            return self._reserve_mib * _MIB
        try:
            found = self._found()
        except OSError:
            return 0
        return min(found.f_blocks * found.f_frsize // _AUTO_PART, _AUTO_MOST)

    def total_bytes(self) -> int:
        """Raises OSError."""
        found = self._found()
        return found.f_blocks * found.f_frsize

    def free_bytes(self) -> int:
        """What users may still take. Raises OSError."""
        found = self._found()
        return found.f_bavail * found.f_frsize

    def _found(self) -> os.statvfs_result:
        """Of a folder that is not made yet: where it will be. Raises OSError."""
        for path in (self._path, *self._path.parents):
            with suppress(FileNotFoundError):
                return os.statvfs(path)
        return os.statvfs(self._path)

    def shortage(self) -> str | None:
        """What is missing, in words; None while there is more than the reserve."""
        now = self._clock()
        if now >= self._next:
            self._shortage = self._measured()
            self._next = now + MEASURE_EVERY_S
        return self._shortage

    def _measured(self) -> str | None:
        try:
            found = self._found()
        except OSError as error:
            return f"the disk that holds {self._path} cannot be read: {error.strerror}"
        reserve = self.reserve_bytes
        if not reserve:
            return None
        wanted = reserve + (reserve // _RETURN_PART if self._shortage else 0)
        free = found.f_bavail * found.f_frsize
        if free < wanted:
            return (
                f"the disk that holds {self._path} has {_in_mib(free)} MiB free, and needs {_in_mib(wanted)} "
                "(setting disk_reserve)"
            )
        if found.f_files and found.f_favail < min(_SPARE_INODES, found.f_files // _INODE_PART):
            return f"the disk that holds {self._path} has {found.f_favail} inodes left"
        return None


def _in_mib(size: int) -> str:
    return f"{size / _MIB:.1f}".removesuffix(".0")
