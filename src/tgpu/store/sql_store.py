"""A store on a SQL database: each method is a function of `store/sql` in its own transaction.

What differs between databases is how transactions are begun and ended (`group_commit.Driver`), who reads, and
how the database is opened.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Event, Job, JobSpec, TaskView
from tgpu.domain.node import Node
from tgpu.store.group_commit import GroupCommit
from tgpu.store.job_filter import JobFilter, Paging, Seen
from tgpu.store.job_listing import Listed, Listing, ListPage
from tgpu.store.lost import Origin
from tgpu.store.port import (
    MANY,
    Batch,
    Changes,
    Counts,
    IdempotencyKey,
    JobTimes,
    LiveSummary,
    Receipt,
    Submitted,
    TrialSubmission,
    World,
)
from tgpu.store.reader_pool import ReaderPool
from tgpu.store.sql import cluster, feed, job_listing, job_tasks, jobs, progress, submission, world
from tgpu.store.sql.session import Session, Values
from tgpu.store.sql_access import SqlAccess
from tgpu.store.sql_cluster import SqlCluster
from tgpu.store.sql_estimates import SqlEstimates
from tgpu.store.sql_needs import SqlNeeds
from tgpu.store.sql_quota import SqlQuota
from tgpu.store.sql_series import SqlSeries
from tgpu.store.sql_usage import SqlUsage
from tgpu.store.task_paging import StatusRun, TaskPaging

T = TypeVar("T")


class SqlStore(SqlCluster, SqlAccess, SqlQuota, SqlUsage, SqlNeeds, SqlSeries, SqlEstimates):
    """Not to be used after `close`."""

    def __init__(self, writer: GroupCommit, readers: ReaderPool, cluster_id: str) -> None:
        super().__init__()
        self._writer, self._readers, self._cluster_id = writer, readers, cluster_id

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._writer.wakes.append(wake)

    def subscribe_events(self, wake: Callable[[], None]) -> None:
        self._writer.event_wakes.append(wake)

    async def close(self) -> None:
        self._end_following()
        await asyncio.to_thread(self._close)

    @abstractmethod
    def _close(self) -> None:
        """Finishes what is under way; blocks until then."""

    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T:
        return await self._writer.write(work, wakes=wakes)

    async def _read(self, work: Callable[[Session], T]) -> T:
        return await self._readers.read(work)

    async def submit(
        self,
        specs: Sequence[JobSpec],
        at_ms: int,
        key: IdempotencyKey | None = None,
        token_id: int | None = None,
    ) -> Submitted:
        item = submission.Submission(specs, at_ms, key, token_id)
        submitted: Submitted = await self._writer.write_jointly(submission.submit_all, item, wakes=True)
        return submitted

    async def try_submit(self, specs: Sequence[JobSpec], token_id: int | None = None) -> TrialSubmission:
        return await self._read(lambda session: submission.trial(session, specs, token_id))

    async def request_cancel(
        self, job_ids: Sequence[int], by: str, at_ms: int, *, now: bool = False
    ) -> list[Job | None]:
        wish = submission.CancelWish(job_ids, by, at_ms, now)
        before: list[Job | None] = await self._writer.write_jointly(submission.cancel_all, wish, wakes=True)
        return before

    async def job(self, job_id: int) -> Job | None:
        return await self._read(lambda session: jobs.one(session, job_id))

    async def jobs_by_id(self, job_ids: Sequence[int]) -> list[Job | None]:
        rows: list[Values] = [{"job": job_id} for job_id in job_ids]
        return await self._read(lambda session: jobs.several(session, rows))

    async def jobs(self, where: JobFilter, paging: Paging) -> list[Job]:
        return await self._read(lambda session: jobs.page(session, where, paging))

    async def list_jobs(self, listing: Listing, page: ListPage) -> list[Listed]:
        return await self._read(lambda session: job_listing.page(session, listing, page))

    async def list_job_ids(self, listing: Listing, page: ListPage) -> list[int]:
        return await self._read(lambda session: job_listing.ids(session, listing, page))

    async def count_jobs(self, listing: Listing, most: int) -> int:
        return await self._read(lambda session: job_listing.count(session, listing, most))

    async def tasks(self, job_id: int, paging: TaskPaging) -> list[TaskView]:
        return await self._read(lambda session: job_tasks.page(session, job_id, paging))

    async def task_statuses(self, job_id: int) -> list[StatusRun]:
        return await self._read(lambda session: job_tasks.statuses(session, job_id))

    async def attempts(self, job_id: int, task: int | None = None, most: int = MANY) -> list[Attempt]:
        return await self._read(lambda session: jobs.attempts_of(session, job_id, task, most))

    async def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        return await self._read(lambda session: jobs.attempt(session, attempt_id))

    async def origins(self, attempt_ids: Sequence[AttemptId]) -> dict[AttemptId, Origin]:
        return await self._read(lambda session: jobs.origins(session, attempt_ids))

    async def events(
        self, after_seq: int = 0, limit: int = 1000, job_id: int | None = None, user: str | None = None
    ) -> list[Event]:
        return await self._read(lambda session: feed.read(session, after_seq, limit, job_id, user))

    async def last_seq(self) -> int:
        return await self._read(cluster.last_seq)

    async def recent_times(self, limit: int) -> list[JobTimes]:
        return await self._read(lambda session: jobs.recent_times(session, limit))

    async def counts(self, seen: Seen | None = None) -> Counts:
        return await self._read(lambda session: jobs.counts(session, seen))

    async def nodes(self) -> list[Node]:
        return await self._read(cluster.all_nodes)

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
