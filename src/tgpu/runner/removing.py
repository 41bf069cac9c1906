# ruff: noqa: PTH106  pathlib is too heavy for a supervisor
"""Removes a folder with all that is in it, whatever the user has made of it to whom it belongs.

They may have nested folders deeper than any path, stack or number of open files reaches, and may put a link
in the place of a folder while root removes it. So what is in a folder is only ever named from that folder
itself, which stays open; and the folders in it are moved up to the top, where each has its turn. What is
mounted in it is somebody else's, and stays.
"""

import os

from tgpu.runner import beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


def remove(path: str) -> bool:
    """Whether nothing is left of it. `path` itself must be in a place that only we can change."""
    try:
        top = _open(path, None)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        _empty(top)
        os.rmdir(path)
    except OSError:
        return False
    finally:
        os.close(top)
    return True


def _empty(top: int) -> None:
    """As far as it can be. Raises OSError if it cannot even be read."""
    device, mark, moved = os.fstat(top).st_dev, os.urandom(8).hex(), 0
    folders = _without_files(top)
    while folders:
        name = folders.pop()
        try:
            inner = _open(name, top)
        except OSError:  # it is no folder any more
            continue
        try:
            if os.fstat(inner).st_dev != device:
                continue
            for below in _without_files(inner):
                moved += 1
                os.rename(below, f"{mark}.{moved}", src_dir_fd=inner, dst_dir_fd=top)
                folders.append(f"{mark}.{moved}")
            os.rmdir(name, dir_fd=top)
        except OSError:  # it stays, and so does what it is in; the others need not
            continue
        finally:
            os.close(inner)


def _without_files(folder: int) -> list[str]:
    """Removes all that is no folder; the names of those that are."""
    folders = []
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        else:
            _unlink(entry.name, folder)
    return folders


def _unlink(name: str, folder: int) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:  # it is gone already, or may not go
        return


def _open(name: str, folder: int | None) -> int:
    """Who is not root may have to unlock it first, which is their own; root must not follow a link."""
    if os.geteuid() != 0:
        os.chmod(name, _OWN, dir_fd=folder)
    return os.open(name, _FOLDER) if folder is None else beneath.open_folder(name, folder)
