"""GET /jobs/{job_id}/tasks: every task of a job, a page at a time."""

from typing import Any

import msgspec
from litestar import Response

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
from tgpu.store.task_paging import TaskPaging

_MAX_PAGE = 1000


class TaskPage(msgspec.Struct, kw_only=True):
    """Some tasks, and where to go on; `next_cursor` is null on the last page."""

    tasks: list[TaskOut]
    next_cursor: int | None


async def list_tasks(call: Call) -> Response[Any]:
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
    found += _unborn(job, paging, paging.limit - len(found))
    page, more = found[:limit], len(found) > limit
    sight = sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)
    shown = [task_out(job, task, sight) for task in page]
    more = more and index is None
    return json_reply(TaskPage(tasks=shown, next_cursor=page[-1].task_id.task_index if more else None))


def _unborn(job: Job, paging: TaskPaging, most: int) -> list[TaskView]:
    """Those of a series that have no rows yet: they wait, unless they were cancelled or never get any."""
    found: list[TaskView] = []
    wishes = Skipped(job.skipped).sets()
    possible = (
        {Status.CANCELLED} if job.dropped else {Status.PENDING, *([Status.CANCELLED] if wishes else [])}
    )
    wanted = possible & paging.statuses if paging.statuses else possible
    if job.born is None or most <= 0 or not wanted:
        return found
    name = job.spec.groups[0].name
    for at in range(max(job.born, paging.after + 1), job.spec.task_count):
        by = (job.cancel_by if job.dropped else None) or who_passed_over(wishes, at)
        status = Status.PENDING if by is None and not job.dropped else Status.CANCELLED
        if status in wanted:
            found.append(TaskView(TaskId(job.job_id, at), name, status, 0, detail=_words(status, by)))
            if len(found) == most:
                break
    return found


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
)
