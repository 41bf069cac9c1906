"""The store on dicts, for the simulator and for tests: no threads, no clock of its own, no chance.

Every method gives way to the event loop once before its effect and once after it, so that whoever drives the
loop can let things happen in between, or let the caller die there. What was written lives in this object and
outlasts its callers.
"""

import asyncio
from collections.abc import Callable, Sequence
from heapq import nlargest
from typing import TypeVar

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Event, Job, JobSpec, TaskView
from tgpu.domain.lifecycle import Status
from tgpu.domain.node import Node
from tgpu.store.job_filter import JobFilter, Paging, Seen
from tgpu.store.job_listing import Listed, Listing, ListPage, sort_value
from tgpu.store.lost import Origin
from tgpu.store.memory_access import MemoryAccess
from tgpu.store.memory_cluster import MemoryCluster, loop_ms
from tgpu.store.memory_estimates import MemoryEstimates
from tgpu.store.memory_needs import MemoryNeeds
from tgpu.store.memory_progress import commit
from tgpu.store.memory_quota import MemoryQuota
from tgpu.store.memory_series import MemorySeries
from tgpu.store.memory_state import State, is_wanted
from tgpu.store.memory_usage import MemoryUsage
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
from tgpu.store.task_paging import StatusRun, TaskPaging

T = TypeVar("T")


class MemoryStore(
    MemoryCluster, MemoryAccess, MemoryUsage, MemoryQuota, MemoryNeeds, MemorySeries, MemoryEstimates
):
    def __init__(self, cluster_id: str = "memory", clock_ms: Callable[[], int] = loop_ms) -> None:
        """`clock_ms` is what leases and announcements run by."""
        MemoryCluster.__init__(self, State(), clock_ms)
        MemoryAccess.__init__(self, self._state)
        self._cluster_id = cluster_id
        self._wakes: list[Callable[[], None]] = []
        self._event_wakes: list[Callable[[], None]] = []

    @property
    def cluster_id(self) -> str:
        return self._cluster_id

    def subscribe(self, wake: Callable[[], None]) -> None:
        self._wakes.append(wake)

    def subscribe_events(self, wake: Callable[[], None]) -> None:
        self._event_wakes.append(wake)

    async def close(self) -> None:
        """Forgets who subscribed; what was written stays, for the next server that uses this object."""
        self._wakes.clear()
        self._event_wakes.clear()

    async def submit(
        self,
        specs: Sequence[JobSpec],
        at_ms: int,
        key: IdempotencyKey | None = None,
        token_id: int | None = None,
    ) -> Submitted:
        return await self._once(lambda: self._state.submit(specs, at_ms, key, token_id), wakes=True)

    async def try_submit(self, specs: Sequence[JobSpec], token_id: int | None = None) -> TrialSubmission:
        return await self._once(lambda: self._state.try_submit(specs, token_id))

    async def request_cancel(
        self, job_ids: Sequence[int], by: str, at_ms: int, *, now: bool = False
    ) -> list[Job | None]:
        return await self._once(lambda: self._state.request_cancel(job_ids, by, at_ms, now=now), wakes=True)

    async def job(self, job_id: int) -> Job | None:
        return await self._once(lambda: self._state.job(job_id))

    async def list_jobs(self, listing: Listing, page: ListPage) -> list[Listed]:
        return await self._once(lambda: self._listed(listing, page))

    async def list_job_ids(self, listing: Listing, page: ListPage) -> list[int]:
        return await self._once(lambda: [each.job.job_id for each in self._listed(listing, page)])

    async def count_jobs(self, listing: Listing, most: int) -> int:
        return await self._once(lambda: min(most, len(self._listed(listing, ListPage(limit=MANY)))))

    def _listed(self, listing: Listing, page: ListPage) -> list[Listed]:
        wanted = (
            job
            for job in self._state.jobs.values()
            if is_wanted(job, listing.where, Paging()) and listing.has(job)
        )
        keyed = sorted(((sort_value(job, page), job.job_id) for job in wanted), reverse=page.descending)
        if page.after is not None:
            keyed = [each for each in keyed if (each < page.after if page.descending else each > page.after)]
        chosen = keyed[page.skip : page.skip + page.limit]
        return [Listed(self._state.shown(self._state.jobs[job_id]), key) for key, job_id in chosen]

    async def jobs_by_id(self, job_ids: Sequence[int]) -> list[Job | None]:
        return await self._once(lambda: [self._state.job(job_id) for job_id in job_ids])

    async def jobs(self, where: JobFilter, paging: Paging) -> list[Job]:
        def page() -> list[Job]:
            wanted = (job for job in self._state.jobs.values() if is_wanted(job, where, paging))
            in_order = sorted(wanted, key=lambda job: job.job_id, reverse=not paging.oldest_first)
            return [self._state.shown(job) for job in in_order[: paging.limit]]

        return await self._once(page)

    async def attempts(self, job_id: int, task: int | None = None, most: int = MANY) -> list[Attempt]:
        return await self._once(lambda: self._state.attempts_of(job_id, task)[:most])

    async def tasks(self, job_id: int, paging: TaskPaging) -> list[TaskView]:
        return await self._once(lambda: self._state.page_of_tasks(job_id, paging))

    async def task_statuses(self, job_id: int) -> list[StatusRun]:
        return await self._once(lambda: self._state.runs_of_tasks(job_id))

    async def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        return await self._once(lambda: self._state.attempt(attempt_id))

    async def origins(self, attempt_ids: Sequence[AttemptId]) -> dict[AttemptId, Origin]:
        def found() -> dict[AttemptId, Origin]:
            tried = {attempt_id: self._state.attempt(attempt_id) for attempt_id in attempt_ids}
            return {
                attempt_id: Origin(attempt, self._state.jobs[attempt_id.job_id].spec)
                for attempt_id, attempt in tried.items()
                if attempt is not None
            }

        return await self._once(found)

    async def events(
        self, after_seq: int = 0, limit: int = 1000, job_id: int | None = None, user: str | None = None
    ) -> list[Event]:
        def following() -> list[Event]:
            newer = self._state.events_after(after_seq)
            wanted = [
                event for event in newer if job_id in (None, event.job_id) and user in (None, event.user)
            ]
            return wanted[:limit]

        return await self._once(following)

    async def last_seq(self) -> int:
        return await self._once(lambda: self._state.last_seq)

    async def counts(self, seen: Seen | None = None) -> Counts:
        def count() -> Counts:
            counts = Counts({}, {})
            for job in self._state.jobs.values():
                if seen is not None and not seen.has(job.spec.user, job.spec.tenant_id):
                    continue
                counts.by_status[job.status] = counts.by_status.get(job.status, 0) + 1
                if not job.status.is_final:
                    of_user = (job.spec.user, job.status)
                    counts.live_by_user[of_user] = counts.live_by_user.get(of_user, 0) + 1
            return counts

        return await self._once(count)

    async def recent_times(self, limit: int) -> list[JobTimes]:
        def times() -> list[JobTimes]:
            found = self._state.jobs.values()
            running = (job for job in found if job.status is Status.RUNNING)
            ended = (job for job in found if job.status.is_final)
            chosen = nlargest(limit, running, key=lambda job: job.job_id)
            chosen += nlargest(limit, ended, key=lambda job: job.ended_ms or 0)
            return [JobTimes(job.submitted_ms, job.started_ms, job.ended_ms) for job in chosen]

        return await self._once(times)

    async def nodes(self) -> list[Node]:
        return await self._once(self._nodes)

    def _nodes(self) -> list[Node]:
        return [node for _, node in sorted(self._state.nodes.items())]

    async def claim(self) -> int:
        def claim() -> int:
            self._state.epoch += 1
            return self._state.epoch

        return await self._once(claim)

    async def load(self) -> World:
        def everything() -> World:
            tasks = [self._state.brief(task_id) for task_id in sorted(self._state.live)]
            followed = self._state.followed(self._state.jobs)
            return World(
                seq=self._state.last_seq,
                nodes=self._nodes(),
                tasks=tasks,
                attempts=list(self._state.live_attempts()),
                lost=[(each.attempt_id, each.node_id) for each in self._state.lost_attempts()],
                tenants=self._state.terms(),
                windows=[window for window in self._state.windows.values() if not window.cancelled],
                restored=self._state.restored,
                needs=self._state.unmet_needs(tasks, followed),
                series=followed,
                restarts=self._state.restarts(),
            )

        return await self._once(everything)

    async def live_summary(self, up_to_job_id: int) -> LiveSummary:
        return await self._once(lambda: self._state.live_summary(up_to_job_id))

    async def changes(self, after_seq: int, limit: int = 5000) -> Changes:
        return await self._once(lambda: self._state.changes(after_seq, limit))

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        return await self._once(lambda: commit(self._state, epoch, batch))

    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        await asyncio.sleep(0)
        known = len(self._state.events)
        result = effect()
        if wakes:
            for wake in self._wakes:
                wake()
        if len(self._state.events) > known:
            for wake in self._event_wakes:
                wake()
        await asyncio.sleep(0)
        return result
