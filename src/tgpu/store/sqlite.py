"""The store in one file: SQLite with one writer, a few readers, and every answer after its commit."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from tgpu.domain.job import Attempt, Event, Job, JobSpec
from tgpu.domain.node import Node
from tgpu.domain.tenant import Limits, Tenant
from tgpu.store.group_commit import GroupCommit
from tgpu.store.port import (
    Batch,
    Changes,
    Counts,
    IdempotencyKey,
    JobFilter,
    LiveSummary,
    Paging,
    Receipt,
    Submitted,
    Token,
    World,
)
from tgpu.store.reader_pool import ReaderPool
from tgpu.store.sql import cluster, feed, jobs, progress, submission, tenants, tokens, world
from tgpu.store.sqlite_file import FileLock, open_file


class SqliteStore:
    """Made by `open`; not to be used after `close`."""

    def __init__(self, lock: FileLock, writer: GroupCommit, readers: ReaderPool, cluster_id: str) -> None:
        self._lock, self._writer, self._readers, self._cluster_id = lock, writer, readers, cluster_id
        self._write, self._read = writer.write, readers.read

    @classmethod
    async def open(cls, path: Path, *, cluster_id: str | None = None) -> Self:
        """`cluster_id` is for a new file; made up if it is not given. Raises StoreUnusableError."""
        return await asyncio.to_thread(cls._open, path, cluster_id or uuid.uuid4().hex)

    @classmethod
    def _open(cls, path: Path, cluster_id: str) -> Self:
        lock, connection, founded_as = open_file(path, cluster_id)
        return cls(lock, GroupCommit(connection, path), ReaderPool(path), founded_as)

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._writer.wakes.append(wake)

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.close()
        self._writer.close()  # last: the connection that may write takes the log into the file
        self._lock.release()

    async def submit(
        self, specs: Sequence[JobSpec], at_ms: int, key: IdempotencyKey | None = None
    ) -> Submitted:
        item = submission.Submission(specs, at_ms, key)
        submitted: Submitted = await self._writer.write_jointly(submission.submit_all, item, wakes=True)
        return submitted

    async def request_cancel(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        return await self._write(
            lambda session: submission.request_cancel(session, job_ids, by, at_ms), wakes=True
        )

    async def job(self, job_id: int) -> Job | None:
        return await self._read(lambda session: jobs.one(session, job_id))

    async def jobs(self, where: JobFilter, paging: Paging) -> list[Job]:
        return await self._read(lambda session: jobs.page(session, where, paging))

    async def attempts(self, job_id: int) -> list[Attempt]:
        return await self._read(lambda session: jobs.attempts_of(session, job_id))

    async def events(
        self, after_seq: int = 0, limit: int = 1000, job_id: int | None = None, user: str | None = None
    ) -> list[Event]:
        return await self._read(lambda session: feed.read(session, after_seq, limit, job_id, user))

    async def last_seq(self) -> int:
        return await self._read(cluster.last_seq)

    async def counts(self) -> Counts:
        return await self._read(jobs.counts)

    async def nodes(self) -> list[Node]:
        return await self._read(cluster.all_nodes)

    async def tenants(self) -> list[Tenant]:
        return await self._read(tenants.every)

    async def tenant(self, tenant_id: str) -> Tenant | None:
        return await self._read(lambda session: tenants.one(session, tenant_id))

    async def create_tenant(self, tenant: Tenant) -> Tenant:
        return await self._write(lambda session: tenants.create(session, tenant), wakes=True)

    async def update_tenant(
        self,
        tenant_id: str,
        *,
        weight: int | None = None,
        limits: Limits | None = None,
        if_version: int | None = None,
    ) -> Tenant:
        return await self._write(
            lambda session: tenants.rewrite(session, tenant_id, weight, limits, if_version), wakes=True
        )

    async def create_token(self, token: Token) -> Token:
        return await self._write(lambda session: tokens.create(session, token))

    async def tokens(self) -> list[Token]:
        return await self._read(tokens.every)

    async def token_by_digest(self, digest: str) -> Token | None:
        return await self._read(lambda session: tokens.by_digest(session, digest))

    async def revoke_token(self, token_id: int) -> bool:
        return await self._write(lambda session: tokens.revoke(session, token_id))

    async def claim(self) -> int:
        return await self._write(cluster.claim)

    async def load(self) -> World:
        return await self._read(world.load)

    async def live_summary(self, up_to_job_id: int) -> LiveSummary:
        return await self._read(lambda session: world.live_summary(session, up_to_job_id))

    async def changes(self, after_seq: int, limit: int = 5000) -> Changes:
        return await self._read(lambda session: world.changes(session, after_seq, limit))

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        return await self._write(lambda session: progress.commit(session, epoch, batch))
