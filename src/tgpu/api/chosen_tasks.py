"""Which tasks of a job somebody means, and how those stand."""

from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

from tgpu.api.endpoint import Call
from tgpu.api.problems import unprocessable
from tgpu.domain.index_set import IndexSet, NoSuchIndexError, parse_indices
from tgpu.domain.job import Job, TaskView
from tgpu.domain.lifecycle import HOLDING, Status
from tgpu.domain.quantities import BadQuantityError
from tgpu.store.growth import Skipped
from tgpu.store.task_paging import TaskPaging

_PAGE = 1000
_MOST_AGAIN = 100_000
AGAIN = frozenset({Status.FAILED, Status.CANCELLED})


class Standing(NamedTuple):
    """Of the tasks that are meant those that can begin anew, by position."""

    running: list[int]
    over: list[int]


def positions(job: Job, text: str | None) -> IndexSet | None:
    """None: all of the job. Raises ProblemError."""
    if text is None:
        return None
    try:
        indices = parse_indices("indices", text)
    except BadQuantityError as error:
        raise unprocessable("indices", str(error)) from None
    series = job.spec.series
    if series is None:
        if list(indices) == [0] and job.spec.task_count == 1:
            return None
        raise unprocessable(
            "indices", f"indices: job {job.job_id} is no array, so it is cancelled or tried again whole"
        )
    try:
        return series.indices.positions_of(indices)
    except NoSuchIndexError as error:
        has = series.indices.text[:200]
        raise unprocessable(
            "indices", f"indices: job {job.job_id} has no index {error.index}; it has {has}"
        ) from None


async def standing(call: Call, job: Job, wanted: IndexSet | None, *, named: bool) -> Standing:
    """Which of these have a node, and which are over. Who completed is done again only if it is named, and
    who runs is stopped for that only if it is, or if all start together."""
    running: set[int] = set()
    over: set[int] = set()
    statuses = AGAIN | HOLDING | {Status.COMPLETED} if named else AGAIN
    statuses = statuses | HOLDING if job.spec.task_count == 1 or job.spec.gang is not None else statuses
    meant = IndexSet.first(job.spec.task_count) if wanted is None else wanted
    async for task in rows(call, job, meant, statuses):
        (running if task.status.holds_resources else over).add(task.task_id.task_index)
        _check_number(over)
    for position in over_without_rows(job, meant):  # some may have got theirs meanwhile
        over.add(position)
        _check_number(over)
    return Standing(sorted(running), sorted(over))


async def rows(call: Call, job: Job, meant: IndexSet, statuses: frozenset[Status]) -> AsyncIterator[TaskView]:
    """Of these tasks those that have a row and one of these statuses."""
    begin = meant.next_from(0)
    while begin is not None:
        paging = TaskPaging(limit=_PAGE, after=begin - 1, statuses=statuses)
        page = await call.services.store.tasks(job.job_id, paging)
        for task in page:
            if task.task_id.task_index in meant:
                yield task
        begin = meant.next_from(page[-1].task_id.task_index + 1) if len(page) == _PAGE else None


def over_without_rows(job: Job, meant: IndexSet) -> Iterator[int]:
    """Of these tasks those that were cancelled, or will never be, and have no row."""
    if job.born is None or not (job.dropped or job.skipped):
        return
    marks = None if job.dropped else Skipped(job.skipped).marks(job.spec.task_count)
    at = meant.next_from(job.born)
    while at is not None:
        if marks is not None and (at := marks.find(1, at)) < 0:
            return
        if at in meant:
            yield at
        at = meant.next_from(at + 1)


def _check_number(over: set[int]) -> None:
    if len(over) > _MOST_AGAIN:
        raise unprocessable(
            "indices", f"indices: at most {_MOST_AGAIN:,} can be tried again at once; name some of them"
        )
