"""Tasks of a job: GET /jobs/{job_id}/tasks, a page at a time, and the statuses of all in one answer."""

from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
from starlette.responses import Response

from tgpu.api.access import sight_of
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import LOOK_AT_JOB
from tgpu.api.problems import bad_request
from tgpu.api.reply import json_reply
from tgpu.api.routes.logs import position_of
from tgpu.api.routes.params import JOB_ID, TASK_EXAMPLE
from tgpu.api.task_view import TaskOut, task_out
from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import MAX_INDEX, MAX_INDICES
from tgpu.domain.job import Job, TaskView
from tgpu.domain.lifecycle import Status
from tgpu.store.growth import Skipped, who_passed_over
from tgpu.store.task_paging import StatusRun, TaskPaging

_MAX_PAGE = 1000


class TaskPage(msgspec.Struct, kw_only=True):
    """Some tasks, and where to go on; `next_cursor` is null on the last page."""

    tasks: list[TaskOut]
    next_cursor: int | None


async def list_tasks(call: Call) -> Response:
    job, query = call.job, call.query
    limit = query.whole("limit", 1, _MAX_PAGE) or _MAX_PAGE
    cursor = query.whole("cursor", 0, MAX_INDICES)
    index = query.whole("index", 0, MAX_INDEX)
    if index is not None:
        limit, cursor = 1, position_of(job, index) - 1
    paging = TaskPaging(
        limit=limit + 1,  # one more than shown tells whether there is a next page
        after=-1 if cursor is None else cursor,
        statuses=frozenset(map(_status, query.many("status"))),
    )
    found = await call.services.store.tasks(job.job_id, paging)
    # Rows may have come since the job was read: who is found is not shown once more.
    after = max(paging.after, found[-1].task_id.task_index if found else -1)
    found += _unborn(job, paging.statuses, after, paging.limit - len(found))
    page, more = found[:limit], len(found) > limit
    sight = sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)
    shown = [task_out(job, task, sight) for task in page]
    more = more and index is None
    return json_reply(TaskPage(tasks=shown, next_cursor=page[-1].task_id.task_index if more else None))


class TaskStatuses(msgspec.Struct, kw_only=True):
    """The status of every task, in their order. Neighbours with the same status are one run: the place of the
    status in `statuses`, and how many tasks."""

    statuses: list[str]
    runs: list[list[int]]


async def list_statuses(call: Call) -> Response:
    found = await call.services.store.task_statuses(call.job.job_id)
    # Rows may have come since the job was read.
    more = _unborn_runs(call.job, sum(run.tasks for run in found))
    if found and more and found[-1].status is more[0].status:
        more[0] = StatusRun(more[0].status, found.pop().tasks + more[0].tasks)
    found += more
    places = {status: place for place, status in enumerate(dict.fromkeys(run.status for run in found))}
    runs = [[places[run.status], run.tasks] for run in found]
    return json_reply(TaskStatuses(statuses=list(places), runs=runs))


def _unborn_runs(job: Job, known: int) -> list[StatusRun]:
    """Tasks of an array without rows, from the position `known` on."""
    total = job.spec.task_count
    if job.born is None or known >= total:
        return []
    if job.dropped:
        return [StatusRun(Status.CANCELLED, total - known)]
    marks, found = Skipped(job.skipped).marks(total), list[StatusRun]()
    while known < total:
        end = marks.find(1 - marks[known], known)
        end = total if end < 0 else end
        found.append(StatusRun(Status.CANCELLED if marks[known] else Status.PENDING, end - known))
        known = end
    return found


def _unborn(job: Job, statuses: frozenset[Status], after: int, most: int) -> list[TaskView]:
    """Those of a series that have no rows yet: they wait, unless they were cancelled or never get any."""
    skipped = Skipped(job.skipped)
    possible = {Status.CANCELLED} if job.dropped else {Status.PENDING}
    possible |= {Status.CANCELLED} if skipped.wishes else set()
    wanted = possible & statuses if statuses else possible
    if job.born is None or most <= 0 or not wanted:
        return []
    first, total = max(job.born, after + 1), job.spec.task_count
    positions: Iterable[int] = range(first, total)
    if wanted != possible:
        positions = _marked(skipped.marks(total), int(Status.CANCELLED in wanted), first)
    name, wishes = job.spec.groups[0].name, skipped.sets()
    found: list[TaskView] = []
    for at in islice(positions, most):
        by = (job.cancel_by if job.dropped else None) or who_passed_over(wishes, at)
        status = Status.PENDING if by is None and not job.dropped else Status.CANCELLED
        found.append(TaskView(TaskId(job.job_id, at), name, status, 0, detail=_words(status, by)))
    return found


def _marked(marks: bytearray, mark: int, first: int) -> Iterator[int]:
    at = marks.find(mark, first)
    while at >= 0:
        yield at
        at = marks.find(mark, at + 1)


def _words(status: Status, by: str | None) -> str:
    if status is Status.PENDING:
        return ""
    return "its job ended before it was its turn" if by is None else f"cancelled by {by}"


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise bad_request(f"status must be one of {', '.join(Status)}; got {text[:80]!r}") from None


ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs/{job_id}/tasks",
        list_tasks,
        LOOK_AT_JOB,
        "jobs",
        "List a job's tasks",
        "In their order, each with where it is and how it ended. A job that was not submitted as several has "
        "one task, number 0.",
        {200: Answer("A page of tasks.", TaskPage, {"tasks": [TASK_EXAMPLE], "next_cursor": None})},
        errors=(404,),
        params=(
            JOB_ID,
            Param("status", "Only of these; repeatable.", {"type": "string"}, "running"),
            Param("index", "Only the one with this index.", {"type": "integer", "minimum": 0}, 3),
            Param("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE}, 100),
            Param("cursor", "The `next_cursor` of the page before.", {"type": "integer", "minimum": 0}, 42),
        ),
    ),
    Endpoint(
        "GET",
        "/jobs/{job_id}/task-statuses",
        list_statuses,
        LOOK_AT_JOB,
        "jobs",
        "List the statuses of a job's tasks",
        "All of them in one short answer, for arrays of many tasks.",
        {
            200: Answer(
                "The statuses.",
                TaskStatuses,
                {"statuses": ["completed", "running"], "runs": [[0, 3], [1, 1]]},
            )
        },
        errors=(404,),
        params=(JOB_ID,),
    ),
)
