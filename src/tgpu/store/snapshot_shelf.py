"""Snapshots of users' code on a server's disk: each user's own, by what is in them."""

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

_HALF = ".part"
_PIECE = 1 << 20
MOST_SNAPSHOTS = 10_000
"""Of one user, however small: each takes a file, and all are looked at when another one comes."""
_ABANDONED_S = 24 * 3600.0
"""After which time nobody goes on with one that is not whole."""


class ShelfRefusedError(Exception):
    """It cannot be kept; the text says why."""


class ShelfFullError(ShelfRefusedError):
    """The disk has no room for it."""


class NotThereYetError(Exception):
    """The piece does not follow on what is here."""

    def __init__(self, received: int) -> None:
        super().__init__(f"{received} bytes of it are here: go on with those that follow")
        self.received = received


@dataclass(frozen=True, slots=True)
class Kept:
    """One that is whole."""

    user: str
    digest: str
    used_s: float
    """When it was last put, named or fetched."""


class Shelf:
    """Blocks: to be called from threads. What is whole never changes; whatever else is there may be lost."""

    def __init__(
        self,
        folder: Path,
        most_bytes: int,
        most_of_user: int,
        now_s: Callable[[], float] = time.time,
        shortage: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`most_bytes`: of one. `most_of_user`: of all of one user's together. `shortage`: why the disk takes
        no more, if it does not."""
        self._shortage = shortage
        self._folder, self._most, self._most_of_user, self._now_s = folder, most_bytes, most_of_user, now_s
        self._writing = threading.Lock()

    def has(self, user: str, digest: str) -> bool:
        """From now on it is in use."""
        path = self._path(user, digest)
        with contextlib.suppress(OSError):
            os.utime(path)
            return True
        return False

    def put(self, user: str, digest: str, offset: int, total: int, data: bytes) -> int:
        """How much of it is here now; once that is `total`, it is whole and is what it says. Raises
        NotThereYetError and ShelfRefusedError, and OSError if the disk is full all the same."""
        with self._writing:  # two who send the same do not disturb each other
            return self._put(user, digest, offset, total, data)

    def _put(self, user: str, digest: str, offset: int, total: int, data: bytes) -> int:
        path = self._path(user, digest)
        if self.has(user, digest):
            return path.stat().st_size
        if not 0 < total <= self._most:
            raise ShelfRefusedError(
                f"a snapshot may have at most {self._most >> 20} MiB here, by the setting snapshot_max_mb; "
                f"this has {total:,} bytes: leave files out with .tgpuignore, or ask an administrator"
            )
        half = path.with_name(path.name + _HALF)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        here = half.stat().st_size if half.exists() else 0
        if offset == 0 and here:
            half.unlink()
            here = 0
        if offset != here:
            raise NotThereYetError(here)
        if offset + len(data) > total:
            raise ShelfRefusedError(f"this is more than the {total:,} bytes that were announced")
        if (shortage := self._shortage()) is not None:
            raise ShelfFullError(shortage)
        self._check_room(half, total)
        with half.open("ab") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if offset + len(data) == total:
            self._complete(half, path, digest)
        return offset + len(data)

    def read(self, user: str, digest: str, offset: int, most: int) -> tuple[bytes, int] | None:
        """So much of it from there, and how much it is in all; None if it is not here."""
        try:
            with self._path(user, digest).open("rb") as file:
                total = os.fstat(file.fileno()).st_size
                file.seek(offset)
                data = file.read(most)
                if offset == 0:
                    os.utime(file.fileno())
                return data, total
        except FileNotFoundError:
            return None

    def kept(self) -> Iterator[Kept]:
        for path in self._folder.glob("*/*.tar.gz"):
            with contextlib.suppress(FileNotFoundError):
                user, digest = unquote(path.parent.name), f"sha256:{path.name.removesuffix('.tar.gz')}"
                yield Kept(user, digest, path.stat().st_mtime)

    def remove_unused(self, user: str, digest: str, before_s: float) -> bool:
        """Unless it was used since then. A job that is about to name it has said so by `has`."""
        path = self._path(user, digest)
        with self._writing, contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < before_s:
                path.unlink()
                return True
        return False

    def remove_halves(self) -> None:
        for half in self._folder.glob(f"*/*{_HALF}"):
            with contextlib.suppress(FileNotFoundError):
                if half.stat().st_mtime < self._now_s() - _ABANDONED_S:
                    half.unlink()

    def _check_room(self, half: Path, total: int) -> None:
        """Beside all others that are here, also those that are not whole."""
        used = count = 0
        for other in half.parent.iterdir():
            with contextlib.suppress(FileNotFoundError):
                used += other.stat().st_size if other != half else 0
                count += other != half
        if count >= MOST_SNAPSHOTS:
            raise ShelfRefusedError(
                f"you have {count:,} snapshots here already, the most that one user may have: they are "
                "removed some time after the last job that ran in them; submit without one"
            )
        if used + total > self._most_of_user:
            raise ShelfRefusedError(
                f"your snapshots have {used >> 20} MiB here already, of {self._most_of_user >> 20} that they "
                "may have: they are removed some time after the last job that ran in them; submit without one"
            )

    def _complete(self, half: Path, path: Path, digest: str) -> None:
        found = hashlib.sha256()
        with half.open("rb") as file:
            while piece := file.read(_PIECE):
                found.update(piece)
        if f"sha256:{found.hexdigest()}" != digest:
            half.unlink()
            raise ShelfRefusedError("what was sent is not what its digest says: send it again")
        half.replace(path)

    def _path(self, user: str, digest: str) -> Path:
        return self._folder / _quoted(user) / f"{digest.removeprefix('sha256:')}.tar.gz"


def _quoted(user: str) -> str:
    """A folder's name, whatever the user's is."""
    return quote(user, safe="").replace(".", "%2E")
