"""Holds still what is to be mounted: a name of root's own, for what a user's descriptor leads to.

An engine opens what it mounts by name, when it starts the container. A name below a user's directory may
mean something else by then. So what the user opened is mounted at a place that only root can change, and the
engine is told of that place. Once the container runs it has its own mount, and the place is cleared.
"""

import contextlib
import ctypes
import os
import stat
from pathlib import Path

_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 1 << 18
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class Staging:
    """A folder of mounts, of one agent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self, descriptor: int, name: str) -> str:
        """The place where it is to be found now; raises OSError."""
        place = self._folder / name
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            place.mkdir(mode=0o700, exist_ok=True)
        else:
            place.touch(mode=0o600)
        _mount(f"/proc/self/fd/{descriptor}", place, _BIND | _REC)
        # So that what is mounted below it stays when this place is cleared.
        _mount("none", place, _PRIVATE | _REC)
        return str(place)

    def release(self, place: str) -> None:
        _libc.umount2(os.fsencode(place), _DETACH)
        with contextlib.suppress(OSError):
            path = Path(place)
            path.rmdir() if path.is_dir() else path.unlink()

    def clear(self) -> None:
        """What an agent that was killed has left."""
        for place in self._folder.iterdir() if self._folder.is_dir() else ():
            self.release(str(place))


def _mount(source: str, target: Path, flags: int) -> None:
    if _libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))
