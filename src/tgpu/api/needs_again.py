"""What a job that is tried again waits for: the same others, or those that took their places since."""

from collections.abc import Sequence

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

_PAGE = 1000


def needs_said(after: Sequence[str]) -> tuple[Need, ...]:
    """By who tries it again. Raises ProblemError."""
    try:
        return parse_needs("after", after) if after else ()
    except BadQuantityError as error:
        raise unprocessable("after", str(error)) from None


async def needs_again(call: Call, job: Job, positions: Sequence[int]) -> tuple[Need, ...]:
    """Of these tasks of it. Raises ProblemError if they could never start."""
    indices = IndexSet.of(job.spec.index_at(position) for position in positions)
    others = _Others(call, job, indices)
    found: dict[Need, None] = {}
    for need in job.spec.needs:
        if need.kind is NeedKind.SINGLETON:
            found[need] = None
        elif need.kind is NeedKind.CORR:
            found |= dict.fromkeys(await others.by_index(need.on, indices))
        else:
            found |= dict.fromkeys(await others.whole(need))
    return tuple(found)


class _Others:
    """That `job` waited for, of which these indices are tried again."""

    def __init__(self, call: Call, job: Job, indices: IndexSet) -> None:
        self._call, self._store, self._job, self._indices = call, call.services.store, job, indices
        self._again: dict[str, dict[int, list[Job]]] = {}
        """By user and job: those that did it again, the newest first."""

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
            newest = (await self._heirs(other))[:1]
            live = [Need(need.kind, heir.job_id) for heir in newest if not heir.status.is_final]
            if not met and not live:
                raise self._never(other)
            return live or [need]
        _, failed = await self._ends(other, IndexSet.first(other.spec.task_count))
        heirs = await self._doing(other, failed)
        return [new for heir, _ in heirs for new in await self.whole(Need(need.kind, heir.job_id))]

    async def by_index(self, job_id: int, indices: IndexSet) -> list[Need]:
        """What has completed there need not be waited for, and what is over otherwise is done by another."""
        other = await self._store.job(job_id)
        if other is None or other.spec.series is None:
            return self._forgotten(job_id)
        completed, failed = await self._ends(other, other.spec.series.indices.positions_of(indices))
        waits_for = set(indices) - completed - failed
        found = [self._behind(other, min(waits_for))] if waits_for else []
        heirs = await self._doing(other, failed, by_index=True) if failed else []
        for heir, theirs in heirs:
            found += await self.by_index(heir.job_id, IndexSet.of(theirs))
        return found

    def _behind(self, other: Job, index: int) -> Need:
        """Of one that is not over: index by index if it has the same ones, and else behind all of it."""
        if any(other.task_counts.get(status) for status in chosen.AGAIN):
            raise self._refused(f"index {index} of job {other.job_id} is not over yet: wait until it is")
        theirs = other.spec.series
        alike = theirs is not None and theirs.indices.is_same(self._indices)
        return Need(NeedKind.CORR if alike else NeedKind.OK, other.job_id)

    async def _ends(self, other: Job, positions: IndexSet) -> tuple[set[int], set[int]]:
        """Of these tasks of it the indices that have completed, and those that are over otherwise."""
        completed: set[int] = set()
        failed = {other.spec.index_at(position) for position in chosen.over_without_rows(other, positions)}
        async for task in chosen.rows(self._call, other, positions, chosen.AGAIN | {Status.COMPLETED}):
            index = other.spec.index_at(task.task_id.task_index)
            (completed if task.status is Status.COMPLETED else failed).add(index)
        return completed, failed

    async def _doing(
        self, other: Job, indices: set[int], *, by_index: bool = False
    ) -> list[tuple[Job, set[int]]]:
        """The newest that do these indices of the other one again, and which of them. Raises ProblemError."""
        left, found = set(indices), []
        for heir in await self._heirs(other):
            theirs = None if heir.spec.series is None else heir.spec.series.indices
            done = left if theirs is None else {index for index in left if index in theirs}
            if done:
                found.append((heir, done))
                left = left - done
            if not left:
                return found
        raise self._indices_never(other, left) if by_index else self._never(other)

    async def _heirs(self, other: Job) -> list[Job]:
        """Those that did it again, the newest first."""
        user = other.spec.user
        if user not in self._again:
            self._again[user] = await self._repetitions(user)
        return self._again[user].get(other.job_id, [])

    async def _repetitions(self, user: str) -> dict[int, list[Job]]:
        """Looked for once, however many others there are."""
        first = min(need.on for need in self._job.spec.needs if need.on) + 1
        where = JobFilter(users=frozenset({user}), id_ranges=((first, MAX_JOB_ID),))
        found: dict[int, list[Job]] = {}
        cursor = None
        while True:
            page = await self._store.jobs(where, Paging(limit=_PAGE, cursor=cursor))
            for job in page:
                if job.spec.again_of is not None:
                    found.setdefault(job.spec.again_of, []).append(job)
            if len(page) < _PAGE:
                return found
            cursor = page[-1].job_id

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

    def _indices_never(self, other: Job, indices: set[int]) -> ProblemError:
        """The others of it may go on, or have completed."""
        number, text = other.job_id, IndexSet.of(indices).text[:200]
        if len(indices) == 1:
            why = f"index {text} of job {number}, for which it waits, has not completed: try it again first"
            return self._refused(f"{why} (`tgpu retry {number}.{text}`)")
        why = f"indices {text} of job {number}, for which it waits, have not completed: try them again first"
        return self._refused(f"{why} (`tgpu retry {number}`)")

    def _refused(self, why: str) -> ProblemError:
        return ProblemError(
            409,
            "never-starts",
            f"job {self._job.job_id} would never start again: {why}; or say what it waits for instead "
            "(--after JOB), or that it waits for nothing (--no-needs)",
        )
