"""Which tasks of a job somebody means, and how those stand."""

from typing import NamedTuple

from tgpu.api.endpoint import Call
from tgpu.api.problems import unprocessable
from tgpu.domain.index_set import IndexSet, NoSuchIndexError, parse_indices
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import HOLDING, Status
from tgpu.domain.quantities import BadQuantityError
from tgpu.store.growth import Skipped, who_passed_over
from tgpu.store.task_paging import TaskPaging

_PAGE = 1000
_MOST_AGAIN = 100_000
_AGAIN = frozenset({Status.FAILED, Status.CANCELLED})


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
    found = Standing([], [])
    statuses = _AGAIN | HOLDING | {Status.COMPLETED} if named else _AGAIN
    statuses = statuses | HOLDING if job.spec.task_count == 1 or job.spec.gang is not None else statuses
    meant = IndexSet.first(job.spec.task_count) if wanted is None else wanted
    begin = meant.next_from(0)
    while begin is not None:
        paging = TaskPaging(limit=_PAGE, after=begin - 1, statuses=statuses)
        page = await call.services.store.tasks(job.job_id, paging)
        for task in page:
            position = task.task_id.task_index
            if position in meant:
                (found.running if task.status.holds_resources else found.over).append(position)
        begin = meant.next_from(page[-1].task_id.task_index + 1) if len(page) == _PAGE else None
        _check_number(found.over)
    wishes = Skipped(job.skipped).sets()
    unborn = meant.next_from(job.born) if (job.dropped or wishes) and job.born is not None else None
    while unborn is not None:
        if job.dropped or who_passed_over(wishes, unborn) is not None:
            found.over.append(unborn)
        unborn = meant.next_from(unborn + 1)
        _check_number(found.over)
    return found


def _check_number(over: list[int]) -> None:
    if len(over) > _MOST_AGAIN:
        raise unprocessable(
            "indices", f"indices: at most {_MOST_AGAIN:,} can be tried again at once; name some of them"
        )
