# ruff: noqa: PTH106  pathlib is too heavy for a supervisor
"""Removes a folder with all that is in it, whatever the user has made of it to whom it belongs.

They may have nested folders deeper than any path, stack or number of open files reaches, and may put a link
in the place of a folder while root removes it. So what is in a folder is only ever named from that folder
itself, which stays open; and the folders in it are moved up to the top, where each has its turn. However many
files there are, no more names are kept in memory than `_MOST_NAMES`. What is mounted in it is another
filesystem, and stays.
"""

import os

from tgpu.runner import beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700
_MOST_NAMES = 10_000
_ROUNDS = 1000
"""Each takes away what it finds: only a user that goes on writing needs that many."""


def remove(path: str) -> bool:
    """Whether nothing is left of it. `path` itself must be in a place that only we can change."""
    try:
        top = _open(path, None)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _Emptying(top).run()
        os.rmdir(path)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


class _Emptying:
    """Of one folder, which stays open."""

    __slots__ = ("_device", "_folders", "_mark", "_moved", "_top")

    def __init__(self, top: int) -> None:
        self._top, self._device = top, os.fstat(top).st_dev
        self._mark, self._moved = os.urandom(8).hex(), 0
        self._folders: list[str] = []
        """Names in the folder: all, or as many as are kept in memory."""

    def run(self) -> None:
        """As far as it can be. Raises OSError if it cannot even be read."""
        for _ in range(_ROUNDS):
            removed, self._folders = False, _without_files(self._top)
            while self._folders:
                removed |= self._is_removed(self._folders.pop())
            if not removed:
                return

    def _is_removed(self, name: str) -> bool:
        """Else it stays, and so does what it is in; the others need not."""
        try:
            inner = _open(name, self._top)
        except OSError:  # it is no folder any more
            return False
        try:
            if os.fstat(inner).st_dev != self._device:
                return False
            self._lift_folders(inner)
            os.rmdir(name, dir_fd=self._top)
        except OSError:
            return False
        finally:
            os.close(inner)
        return True

    def _lift_folders(self, inner: int) -> None:
        """To the top. Raises OSError."""
        for _ in range(_ROUNDS):
            found = _without_files(inner)
            for name in found:
                self._moved += 1
                lifted = f"{self._mark}.{self._moved}"
                os.rename(name, lifted, src_dir_fd=inner, dst_dir_fd=self._top)
                if len(self._folders) < _MOST_NAMES:  # the others are found in the next round
                    self._folders.append(lifted)
            if not found:
                return


def _without_files(folder: int) -> list[str]:
    """Removes all that is no folder; the names of some that are. Raises OSError."""
    folders: list[str] = []
    for _ in range(_ROUNDS):  # a folder that changes while it is read may not be read whole
        unlinked = False
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    unlinked |= _is_unlinked(entry.name, folder)
                elif len(folders) < _MOST_NAMES:
                    folders.append(entry.name)
        if folders or not unlinked:
            break
    return folders


def _is_unlinked(name: str, folder: int) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:  # it is gone already, or may not go
        return False
    return True


def _open(name: str, folder: int | None) -> int:
    """Who is not root may have to unlock it first, which is their own; root must not follow a link."""
    if os.geteuid() != 0:
        os.chmod(name, _OWN, dir_fd=folder)
    return os.open(name, _FOLDER) if folder is None else beneath.open_folder(name, folder)
