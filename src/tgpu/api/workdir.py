"""Whether a job's working directory is there, as far as its user could tell.

The server may be root: it says "there is no such directory" only where the user could have seen that
alone, so that nobody learns what lies in another's private directories.
"""

import asyncio
import errno
import os
import stat
import time
from collections.abc import Callable

from tgpu.api.accounts import Account

_KEEP_S = 2.0
_MOST = 10_000
_MAX_PATH = 4096
_MOST_LINKS = 40  # as the kernel follows


def complaint(cwd: str, account: Account) -> str | None:
    """Why this cannot be a working directory, or None; touches the disk."""
    if len(os.fsencode(cwd)) >= _MAX_PATH:
        return f"cwd may have at most {_MAX_PATH - 1} bytes"
    groups = frozenset(account.groups())
    path, ahead, links = "/", _names(cwd), _MOST_LINKS
    try:
        while True:
            found = os.stat(path)  # noqa: PTH116  a hot path of plain strings
            if not stat.S_ISDIR(found.st_mode):
                return f"cwd: {cwd} is not a directory"
            # An access list may allow what the mode does not: the start of the task will tell.
            if not ahead or not _may_search(found, account, groups):
                return None
            name = ahead.pop()
            below = os.path.dirname(path) if name == ".." else os.path.join(path, name)  # noqa: PTH118, PTH120
            target = None if name == ".." else _target(below)
            if target is None:
                path = below
                continue
            links -= 1
            if links < 0:
                return f"cwd: {cwd} cannot be used: {os.strerror(errno.ELOOP)}"
            ahead += _names(target)
            path = "/" if target.startswith("/") else path
    except FileNotFoundError:
        return f"cwd: there is no directory {cwd} on this machine"
    except OSError as error:
        return f"cwd: {cwd} cannot be used: {error.strerror}"


def _names(path: str) -> list[str]:
    """Its components, the last one first."""
    return [name for name in reversed(path.split("/")) if name not in {"", "."}]


def _target(path: str) -> str | None:
    """Where that link leads; None: it is none. Raises OSError. It is read only in a directory that the user
    may search: where links of others lead in their private directories is not for the user to learn."""
    try:
        return os.readlink(path)  # noqa: PTH115  a hot path of plain strings
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise


def _may_search(found: os.stat_result, account: Account, groups: frozenset[int]) -> bool:
    if account.uid == 0:
        return True
    if found.st_uid == account.uid:
        return bool(found.st_mode & stat.S_IXUSR)
    if found.st_gid in groups:
        return bool(found.st_mode & stat.S_IXGRP)
    return bool(found.st_mode & stat.S_IXOTH)


class Workdirs:
    """Remembers for a moment what was found good, so that a burst of submissions asks the disk once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._good: dict[tuple[int, str], float] = {}

    async def check(self, cwd: str, account: Account) -> str | None:
        if self._good.get((account.uid, cwd), 0.0) > self._clock():
            return None
        if not cwd.startswith("/") or "\0" in cwd:
            return f"cwd must be an absolute path; got {cwd[:200]!r}"
        # A dead network drive must not stop the event loop.
        wrong = await asyncio.to_thread(complaint, cwd, account)
        if wrong is None:
            if len(self._good) >= _MOST:
                self._good.clear()
            self._good[account.uid, cwd] = self._clock() + _KEEP_S
        return wrong
