"""Snapshots as all servers of a cluster have them: on this one's shelf, or brought over from another's.

What a job is submitted with is on two of them: one may be gone when the job starts.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypedDict

from tgpu.config.settings import Settings
from tgpu.domain.lifecycle import Status
from tgpu.domain.quantities import seconds
from tgpu.observe.logs import logger
from tgpu.protocol.snapshots import PIECE, Piece
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Store, StoreUnavailableError
from tgpu.store.snapshot_shelf import NotThereYetError, Shelf, ShelfRefusedError
from tgpu.wiring.disk_watch import disk_of
from tgpu.wiring.peers import Asking, UnansweredError

SWEEP_EVERY_S = 3600.0
SHARE_S = 10.0
"""Whoever submits waits no longer than this for the second copy."""
_MIB = 1 << 20
_SHARE = 50  # how many of the largest size one user may have
_PAGE = 500
_LIVE = frozenset(status for status in Status if not status.is_final)


def shelf_of(settings: Settings) -> Shelf:
    most = settings.snapshot_max_mb * _MIB
    folder, disk = settings.home / "server" / "snapshots", disk_of(settings)
    return Shelf(folder, most, _SHARE * most, shortage=disk.shortage)


class Introduced(TypedDict):
    """How this server is known to the others."""

    cluster_id: str
    secret: str
    tls: Callable[[], ssl.SSLContext | None]


class EachOther:
    """Ways to ask each of the other servers, made when they are needed."""

    def __init__(self, urls: Callable[[], Sequence[str]], who: Introduced) -> None:
        self._urls, self._who = urls, who
        self._ways: dict[str, Asking] = {}

    def all(self) -> list[Asking]:
        for url in self._urls():
            if url not in self._ways:
                self._ways[url] = Asking(leader=lambda url=url: url, **self._who)  # type: ignore[misc]  # the default binds it
        return [self._ways[url] for url in self._urls()]

    def close(self) -> None:
        for way in self._ways.values():
            way.close()


class ServerSnapshots:
    """The API's `SnapshotDesk`, and what nodes are given."""

    def __init__(self, shelf: Shelf, others: Callable[[], Sequence[Asking]]) -> None:
        """`others`: ways to ask each of the other servers."""
        self._shelf, self._others = shelf, others
        self._bringing: dict[tuple[str, str], asyncio.Lock] = {}
        self._shared: set[tuple[str, str]] = set()

    async def has(self, user: str, digest: str) -> bool:
        """Whether a job may be submitted with it; then another server has it, too, if any can be asked."""
        if not await asyncio.to_thread(self._shelf.has, user, digest):
            return await self._brought(user, digest)
        if (user, digest) not in self._shared:
            await self._share(user, digest)
        return True

    async def bring(self, user: str, digest: str) -> bool:
        """For another server, which may be gone soon: whether it is here now."""
        return await asyncio.to_thread(self._shelf.has, user, digest) or await self._brought(user, digest)

    async def put(self, user: str, digest: str, offset: int, total: int, data: bytes) -> int:
        return await asyncio.to_thread(self._shelf.put, user, digest, offset, total, data)

    async def read(self, user: str, digest: str, offset: int, most: int) -> tuple[bytes, int] | None:
        found = await asyncio.to_thread(self._shelf.read, user, digest, offset, most)
        if found is None and await self._brought(user, digest):
            return await asyncio.to_thread(self._shelf.read, user, digest, offset, most)
        return found

    async def own_piece(self, user: str, digest: str, offset: int) -> Piece:
        """For another server: of this one's shelf alone."""
        found = await asyncio.to_thread(self._shelf.read, user, digest, offset, PIECE)
        return Piece() if found is None else Piece(data=found[0], total=found[1])

    async def _share(self, user: str, digest: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SHARE_S):
                for other in self._others():
                    try:
                        if await other.ask("take_snapshot", user, digest, patience_s=SHARE_S):
                            self._shared.add((user, digest))
                            return
                    except UnansweredError as error:
                        logger("snapshots").warning("not given to another", digest=digest, error=str(error))

    async def _brought(self, user: str, digest: str) -> bool:
        """Whether another server had it; then it is here from now on."""
        others = self._others()
        if not others:
            return False
        lock = self._bringing.setdefault((user, digest), asyncio.Lock())
        try:
            async with lock:
                if await asyncio.to_thread(self._shelf.has, user, digest):
                    return True  # whoever had the lock before has brought it
                for other in others:
                    try:
                        if await self._bring(other, user, digest):
                            return True
                    except (UnansweredError, ShelfRefusedError, NotThereYetError, OSError) as error:
                        logger("snapshots").warning("not brought over", digest=digest, error=str(error))
                return False
        finally:
            if not lock.locked():
                self._bringing.pop((user, digest), None)

    async def _bring(self, other: Asking, user: str, digest: str) -> bool:
        offset = 0
        while True:
            piece: Piece = await other.ask("snapshot_piece", user, digest, offset)
            if not piece.data:
                return False
            offset = await self.put(user, digest, offset, piece.total, piece.data)
            if offset >= piece.total:
                return True


class SnapshotSweeper:
    """Removes what was not used for long and no live job names."""

    def __init__(self, shelf: Shelf, store: Store, settings: Settings, now_ms: Callable[[], int]) -> None:
        self._shelf, self._store, self._now_ms = shelf, store, now_ms
        self._keep_s = seconds("snapshot_keep", settings.snapshot_keep)

    async def go_on(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                removed = await self.sweep()
            except (OSError, StoreUnavailableError) as error:
                logger("snapshots").warning("old snapshots could not be removed", error=str(error))
            else:
                logger("snapshots").info("old snapshots removed", count=removed)

    async def sweep(self) -> int:
        await asyncio.to_thread(self._shelf.remove_halves)
        before_s = self._now_ms() / 1000 - self._keep_s
        old = [
            kept
            for kept in await asyncio.to_thread(lambda: list(self._shelf.kept()))
            if kept.used_s < before_s
        ]
        removed = 0
        for user in sorted({kept.user for kept in old}):
            named = await self._named_by(user)
            for kept in old:
                if kept.user == user and kept.digest not in named:
                    removed += await asyncio.to_thread(
                        self._shelf.remove_unused, kept.user, kept.digest, before_s
                    )
        return removed

    async def _named_by(self, user: str) -> set[str]:
        """Those of a user's live jobs."""
        where = JobFilter(statuses=_LIVE, users=frozenset({user}))
        named: set[str] = set()
        cursor: int | None = None
        while True:
            jobs = await self._store.jobs(where, Paging(limit=_PAGE, cursor=cursor))
            named.update(job.spec.snapshot.digest for job in jobs if job.spec.snapshot is not None)
            if len(jobs) < _PAGE:
                return named
            cursor = jobs[-1].job_id
