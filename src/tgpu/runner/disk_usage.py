"""Disk usage of folders that users control, measured with their rights by a program of its own.

The agent starts it as root with a list of folders on stdin. It opens each, which only root can replace, and
forks a process that gives up root's rights before it looks into any of them: it has the user's identity on
file systems, and of root's capabilities only the one to read folders, so that a folder that its user has
closed is measured, too. Its real user stays root's, since otherwise the user could end it. It follows no
link, enters no mount, and stops at bounds of entries, memory and time, whatever the tree is like.
"""

import ctypes
import errno
import json
import os
import resource
import stat
import sys
import time
from typing import NamedTuple

from tgpu.runner import beneath

MOST_ENTRIES = 4_000_000
_MOST_WAITING = 500_000
"""Folders that were seen and not yet entered."""
_LONGEST_PATH = 512
"""Bytes of a path from one open folder to the next: resolving a longer one would take longer each time."""
_MEMORY_BYTES = 1 << 30
_OPEN_FOLDERS = 8192
_LOOK_AT_CLOCK_EVERY = 1024
_BLOCK = 512
_ENTRY_BYTES = 4096
"""What each entry counts for at least, so that empty files are not free."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ROOT = 0
_DAC_READ_SEARCH = 1 << 2
_CAPABILITIES_V3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


class Usage(NamedTuple):
    size: int
    """Bytes on disk, of all that was counted."""
    entries: int
    is_whole: bool
    """False: not all of it could be read in time."""
    is_countable: bool
    """False: it has more entries than are counted, or is nested too deep."""
    newest_s: float
    """The last change of content in what was counted, which its user can give any time."""
    changed_s: float
    """The last change of anything inside, which no user can give another time; 0: it is empty."""


class _Folder:
    """Open as long as anything refers to it."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __del__(self) -> None:
        os.close(self.fd)


class _OverError(Exception):
    """The time is over."""


class Walk:
    """Sum of one tree. Hard links share the size of their file."""

    def __init__(self, until: float, most_entries: int = MOST_ENTRIES) -> None:
        """`until`: on the monotonic clock."""
        self._until, self._most = until, most_entries
        self._size = self._entries = 0
        self._newest_s = self._changed_s = 0.0
        self._waiting: list[tuple[_Folder, str]] = []

    def measure(self, top: int) -> Usage:
        """`top` is closed."""
        is_whole = is_countable = True
        self._newest_s = os.fstat(top).st_mtime
        self._waiting.append((_Folder(top), "."))
        try:
            while self._waiting and is_countable:
                is_whole &= self._enter(*self._waiting.pop())
                is_countable = self._entries <= self._most and len(self._waiting) <= _MOST_WAITING
        except _OverError:
            is_whole = False
        except MemoryError:
            is_countable = False
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            is_countable = False
        self._waiting.clear()
        return Usage(self._size, self._entries, is_whole, is_countable, self._newest_s, self._changed_s)

    def _enter(self, above: _Folder, name: str) -> bool:
        """False: it cannot be read."""
        try:
            folder = _Folder(beneath.open_folder(name, above.fd))
        except (FileNotFoundError, NotADirectoryError):  # its user has removed it meanwhile
            return True
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return error.errno in (errno.EXDEV, errno.ELOOP)  # a mount or a link
        is_long = len(name) > _LONGEST_PATH
        above, way = (folder, ".") if is_long else (above, name)
        with os.scandir(folder.fd) as entries:
            for entry in entries:
                if self._is_counted_folder(entry):
                    self._waiting.append((above, f"{way}/{entry.name}"))
                if self._entries > self._most or len(self._waiting) > _MOST_WAITING:
                    break
        return True

    def _is_counted_folder(self, entry: "os.DirEntry[str]") -> bool:
        """Counts it; whether it is a folder."""
        self._entries += 1
        if self._entries % _LOOK_AT_CLOCK_EVERY == 0 and time.monotonic() > self._until:
            raise _OverError
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:  # it is gone
            return False
        is_folder = stat.S_ISDIR(found.st_mode)
        size = max(found.st_blocks * _BLOCK, _ENTRY_BYTES)
        self._size += size if is_folder else size // max(found.st_nlink, 1)
        self._newest_s = max(self._newest_s, found.st_mtime)
        self._changed_s = max(self._changed_s, found.st_ctime)
        return is_folder


def main() -> None:
    """Reads `[SECONDS, [[UID, GID, [[NUMBER, PATH], …]], …]]`; prints a line for each folder that could be
    measured: its number, and the fields of `Usage`."""
    seconds, users = json.load(sys.stdin)
    os.nice(19)
    for kind, most in ((resource.RLIMIT_AS, _MEMORY_BYTES), (resource.RLIMIT_NOFILE, _OPEN_FOLDERS)):
        _limit(kind, most)
    end = time.monotonic() + seconds
    for at, (uid, gid, folders) in enumerate(users):
        now = time.monotonic()
        child = os.fork()
        if child == 0:
            try:  # each user has an equal part of the time that is left: no tree takes that of others
                _measure(uid, gid, folders, now + (end - now) / (len(users) - at))
            finally:
                os._exit(0)
        os.waitpid(child, 0)


def _measure(uid: int, gid: int, folders: list[tuple[int, str]], until: float) -> None:
    """Opens as root what only root can replace; the rest with the user's rights."""
    tops = []
    for number, path in folders:
        try:
            tops.append((number, os.open(path, _FOLDER)))
        except OSError:  # it is gone
            continue
    become(uid, gid)
    for number, top in tops:
        try:
            usage = Walk(until).measure(top)
        except OSError:
            continue
        os.write(1, f"{json.dumps([number, *usage])}\n".encode())


def become(uid: int, gid: int) -> None:
    """Gives up all rights but that user's on file systems, and the right to read any folder."""
    if os.geteuid() != _ROOT:
        return
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(_ROOT, uid, _ROOT)
    try:
        _keep_only(_DAC_READ_SEARCH)
    except OSError:  # a container without it
        _keep_only(0)


def _keep_only(capabilities: int) -> None:
    """Raises OSError."""
    header = _CAPABILITIES_V3.to_bytes(4, sys.byteorder) + bytes(4)
    low = capabilities.to_bytes(4, sys.byteorder)
    if _libc.capset(header, low + low + bytes(16)) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities of root cannot be given up")


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))
