"""Folders that only their owner can change: created and checked level by level, from the root down."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40
_ROOT_UID = 0


class UnsafeFolderError(PermissionError):
    """Another user could replace what is read from this folder."""


def make(folder: Path) -> None:
    """Missing levels are created with mode 0700. Raises UnsafeFolderError if another user could change or
    replace any level of its path."""
    _walk(folder, make_missing=True)


def check(folder: Path) -> None:
    """The same for a folder that exists."""
    _walk(folder, make_missing=False)


def check_file(path: Path) -> None:
    """A regular file of the caller or root, in a folder that only they change. Raises UnsafeFolderError."""
    check(path.parent)
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or not _is_trusted(found):
        raise UnsafeFolderError(f"{path} is not a file of this user: it is not read")


def _walk(folder: Path, *, make_missing: bool) -> None:
    """Each level is opened relative to the one above, which was found safe; links are followed by hand."""
    ahead, here, links = [*reversed(folder.absolute().parts)], Path("/"), 0
    fd = os.open("/", _LOOK)
    try:
        while ahead:
            name = ahead.pop()
            if name == "/":
                below, here = os.open("/", _LOOK), Path("/")
            else:
                below, here = _opened(fd, name, make_missing=make_missing), here / name
            found = os.fstat(below)
            _check_owner(found, here)
            if stat.S_ISLNK(found.st_mode):
                ahead += reversed(Path(os.readlink("", dir_fd=below)).parts)
                here, links = here.parent, links + 1
                os.close(below)
                if links > _MOST_LINKS:
                    raise UnsafeFolderError(f"{folder} leads through too many links")
                continue
            os.close(fd)
            fd = below
            is_shared = _is_sticky(found, here)
    finally:
        os.close(fd)
    if is_shared:
        raise UnsafeFolderError(
            f"other users may create files in {folder}: choose a folder of your own below it, with mode 0700"
        )


def _opened(above: int, name: str, *, make_missing: bool) -> int:
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, _LOOK, dir_fd=above)
    if make_missing:
        with contextlib.suppress(FileExistsError):  # another thread was faster
            os.mkdir(name, 0o700, dir_fd=above)
    return os.open(name, _LOOK, dir_fd=above)


def _is_trusted(found: os.stat_result) -> bool:
    return found.st_uid in {_ROOT_UID, os.geteuid()}


def _check_owner(found: os.stat_result, path: Path) -> None:
    if not _is_trusted(found):
        raise UnsafeFolderError(
            f"{path} belongs to uid {found.st_uid}, who could replace the files below it: choose a folder "
            "whose whole path belongs to you or root"
        )


def _is_sticky(found: os.stat_result, path: Path) -> bool:
    """Whether others may create files in it without replacing those of the caller."""
    if not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    if not found.st_mode & stat.S_ISVTX:
        raise UnsafeFolderError(
            f"{path} may be changed by other users (mode {stat.S_IMODE(found.st_mode):04o}), who could "
            f"replace the files below it: choose another folder, or run `chmod go-w {path}`"
        )
    return True
