"""What a job that is tried again waits for: the same others, or those that took their places since."""

from collections.abc import AsyncIterator, Sequence

from tgpu.api import chosen_tasks as chosen
from tgpu.api.endpoint import Call
from tgpu.api.problems import ProblemError, unprocessable
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.needs import Need, NeedKind, parse_needs
from tgpu.domain.quantities import BadQuantityError
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.task_paging import TaskPaging

_PAGE = 1000


def needs_said(after: Sequence[str]) -> tuple[Need, ...]:
    """By who tries it again. Raises ProblemError."""
    try:
        return parse_needs("after", after) if after else ()
    except BadQuantityError as error:
        raise unprocessable("after", str(error)) from None


async def needs_again(call: Call, job: Job, positions: Sequence[int]) -> tuple[Need, ...]:
    """Of these tasks of it. Raises ProblemError if they could never start."""
    others = _Others(call, job)
    found: dict[Need, None] = {}
    for need in job.spec.needs:
        if need.kind is NeedKind.SINGLETON:
            found[need] = None
        elif need.kind is NeedKind.CORR:
            indices = IndexSet.of(job.spec.index_at(position) for position in positions)
            found |= dict.fromkeys(await others.by_index(need.on, indices))
        else:
            found |= dict.fromkeys(await others.whole(need))
    return tuple(found)


class _Others:
    """That `job` waited for."""

    def __init__(self, call: Call, job: Job) -> None:
        self._call, self._store, self._job = call, call.services.store, job

    async def whole(self, need: Need) -> list[Need]:
        other = await self._store.job(need.on)
        if other is None:
            return self._forgotten(need.on)
        if not other.status.is_final:
            return [need]
        met = need.kind.is_met_by(other.status)
        if met and need.kind is NeedKind.NOT_OK:
            return [need]
        if met or other.status is Status.COMPLETED:
            newest = [heir async for heir in self._heirs(other)][:1]
            live = [Need(need.kind, heir.job_id) for heir in newest if not heir.status.is_final]
            if not met and not live:
                raise self._never(other)
            return live or [need]
        _, over = await chosen.standing(self._call, other, None, named=False)
        heirs = await self._doing(other, {other.spec.index_at(position) for position in over})
        return [new for heir in heirs for new in await self.whole(Need(need.kind, heir.job_id))]

    async def by_index(self, job_id: int, indices: IndexSet) -> list[Need]:
        other = await self._store.job(job_id)
        if other is None or other.spec.series is None:
            return self._forgotten(job_id)
        theirs = other.spec.series.indices
        completed = await self._completed(other)
        missing = {index for index in indices if theirs.position_of(index) not in completed}
        if not missing:
            return []
        wanted = theirs.positions_of(IndexSet.of(missing))
        _, over = await chosen.standing(self._call, other, wanted, named=False)
        failed = {other.spec.index_at(position) for position in over}
        if missing - failed:
            if not failed and theirs == indices:
                return [Need(NeedKind.CORR, job_id)]
            raise self._refused(
                f"index {min(missing - failed)} of job {job_id} is not over yet: wait until it is"
            )
        heirs = await self._doing(other, failed)
        found: list[Need] = []
        for heir in heirs:
            alike = heir.spec.series is not None and heir.spec.series.indices == indices
            if alike and not heir.status.is_final:
                found.append(Need(NeedKind.CORR, heir.job_id))
            else:  # of other indices: then it is waited for as a whole
                found += await self.whole(Need(NeedKind.OK, heir.job_id))
        return found

    async def _doing(self, other: Job, indices: set[int]) -> list[Job]:
        """The newest that do these indices of the other one again. Raises ProblemError."""
        left, found = set(indices), []
        async for heir in self._heirs(other):
            theirs = None if heir.spec.series is None else heir.spec.series.indices
            done = left if theirs is None else {index for index in left if index in theirs}
            if done:
                found.append(heir)
                left = left - done
            if not left:
                return found
        raise self._never(other)

    async def _heirs(self, other: Job) -> AsyncIterator[Job]:
        """Those that did it again, the newest first."""
        where = JobFilter(users=frozenset({other.spec.user}), id_ranges=((other.job_id + 1, MAX_JOB_ID),))
        cursor = None
        while True:
            page = await self._store.jobs(where, Paging(limit=_PAGE, cursor=cursor))
            for job in page:
                if job.spec.again_of == other.job_id:
                    yield job
            if len(page) < _PAGE:
                return
            cursor = page[-1].job_id

    async def _completed(self, other: Job) -> set[int]:
        found: set[int] = set()
        after = -1
        while True:
            paging = TaskPaging(limit=_PAGE, after=after, statuses=frozenset({Status.COMPLETED}))
            page = await self._store.tasks(other.job_id, paging)
            found.update(task.task_id.task_index for task in page)
            if len(page) < _PAGE:
                return found
            after = page[-1].task_id.task_index

    def _forgotten(self, job_id: int) -> list[Need]:
        """Of one that is not known any more, only who waited for it can tell how it ended."""
        if self._job.cause is Cause.DEPENDENCY_FAILED:
            raise self._refused(f"job {job_id}, for which it waits, is not known any more")
        return []

    def _never(self, other: Job) -> ProblemError:
        if other.status is Status.COMPLETED:
            return self._refused(f"job {other.job_id}, for which it waits, has completed")
        how = "was cancelled" if other.status is Status.CANCELLED else "has failed"
        return self._refused(
            f"job {other.job_id}, for which it waits, {how}: try that one again first "
            f"(`tgpu retry {other.job_id}`)"
        )

    def _refused(self, why: str) -> ProblemError:
        return ProblemError(
            409,
            "never-starts",
            f"job {self._job.job_id} would never start again: {why}; or say what it waits for instead "
            "(--after JOB), or that it waits for nothing (--no-needs)",
        )
