"""Gets snapshots of users' code from the leader, over the agent's one stream, and keeps them for a while."""

import asyncio
import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from tgpu.agent.user_folder import user_folder
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import is_full
from tgpu.protocol.snapshots import SnapshotPart, WantSnapshot
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.port import CouldNotPrepareError

ANSWER_S = 10.0
PAUSE_S = 0.5
KEEP_S = 24 * 3600.0
"""How long after its last use an archive stays here: many tasks run in the same one."""
_PIECE = 1 << 20


class SnapshotFetch:
    """While no leader is there it waits for one: whoever no longer wants a snapshot cancels."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most = folder, most_bytes
        self.say: Callable[[WantSnapshot], None] = lambda _: None
        """To the leader; lost if there is none."""
        self._last = 0
        self._open: dict[int, asyncio.Future[SnapshotPart]] = {}
        self._fetching: dict[Path, asyncio.Lock] = {}

    @classmethod
    def of_nobody(cls) -> "SnapshotFetch":
        """For an agent whose runner knows no snapshots."""
        return cls(Path(os.devnull), 0)

    def heard(self, part: SnapshotPart) -> None:
        waiting = self._open.pop(part.request, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(part)

    async def archive(self, user: str, digest: str) -> Path:
        """Where it is on this node. Raises CouldNotPrepareError."""
        path = self._folder / user_folder(user) / f"{digest.removeprefix('sha256:')}.tar.gz"
        lock = self._fetching.setdefault(path, asyncio.Lock())
        try:
            async with lock:
                if not await asyncio.to_thread(_is_used, path):
                    await self._fetch(user, digest, path)
                    await asyncio.to_thread(_sweep, self._folder)
                return path
        except OSError as error:
            if is_full(error):
                raise CouldNotPrepareError(DISK_FULL, Cause.NODE_LOST) from error
            raise CouldNotPrepareError(
                f"its snapshot cannot be kept on this node: {error.strerror}"
            ) from error
        finally:
            if not lock.locked():
                self._fetching.pop(path, None)

    async def _fetch(self, user: str, digest: str, path: Path) -> None:
        half = path.with_name(path.name + ".part")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        half.unlink(missing_ok=True)
        found, offset = hashlib.sha256(), 0
        while True:
            part = await self._part(user, digest, offset)
            if part.error:
                raise CouldNotPrepareError(part.error)
            if part.total > self._most:
                raise CouldNotPrepareError(
                    f"its snapshot has {part.total >> 20} MiB, and this node takes {self._most >> 20}, "
                    "by the setting snapshot_max_mb"
                )
            await asyncio.to_thread(_append, half, part.data)
            found.update(part.data)
            offset += len(part.data)
            if offset >= part.total:
                break
        if f"sha256:{found.hexdigest()}" != digest:
            raise CouldNotPrepareError("its snapshot did not arrive as it was sent: try again")
        half.replace(path)

    async def _part(self, user: str, digest: str, offset: int) -> SnapshotPart:
        """Asked for until it comes: a leader may be gone with the question."""
        while True:
            self._last += 1
            waiting = self._open[self._last] = asyncio.get_running_loop().create_future()
            request = self._last
            try:
                self.say(WantSnapshot(request=request, user=user, digest=digest, offset=offset))
                async with asyncio.timeout(ANSWER_S):
                    part: SnapshotPart = await waiting
                if part.error or part.data:
                    return part
            except TimeoutError:
                pass
            finally:
                self._open.pop(request, None)
            await asyncio.sleep(PAUSE_S)


def _is_used(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        os.utime(path)
        return True
    return False


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(data)


def _sweep(folder: Path) -> None:
    for path in folder.glob("*/*.tar.gz*"):
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - KEEP_S:
                path.unlink()
