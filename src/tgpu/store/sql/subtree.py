"""Rows that belong to a part of the tree of tenants."""

from collections import defaultdict
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Integer, Table, Text, func, or_, select, update

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.quota import Standing
from tgpu.store.lost_run import LostRun
from tgpu.store.sql import codec, lost_runs
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import LIVE_STATUSES, jobs, tasks
from tgpu.store.tenancy import Living


def is_within(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether it is the tenant `top`, or its name begins with `below`, which is `top` with a slash. Written
    without LIKE, for which `_` is any letter, and without order, which depends on the database's language."""
    below = value("below", Text())
    beginning = func.substr(column, constant(1), func.length(below))
    return or_(column == value("top", Text()), beginning == below)


def within(tenant_id: str) -> Values:
    """The values for `is_within`."""
    return {"top": tenant_id, "below": f"{tenant_id}/"}


def rename(table: Table, *narrowing: ColumnElement[bool]) -> Query:
    name = table.c.tenant_id
    rest = func.substr(name, value("rest_from", Integer()))
    return Query(
        f"Gives {table.name} of a tenant and everybody below it its new name.",
        update(table)
        .values(tenant_id=value("new_id", Text()).concat(rest))
        .where(is_within(name), *narrowing),
    )


def renamed(tenant_id: str, to_id: str) -> Values:
    """The values for `rename`."""
    return within(tenant_id) | {"new_id": to_id, "rest_from": len(tenant_id) + 1}


LIVING = Query(
    "Every task that is not over, of a tenant and everybody below it.",
    select(
        tasks.c.job_id,
        tasks.c.task_index,
        jobs.c.tenant_id,
        tasks.c.request,
        tasks.c.standing,
        tasks.c.reserved_gpu_ms,
    )
    .join_from(tasks, jobs, tasks.c.job_id == jobs.c.job_id)
    .where(tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]), is_within(jobs.c.tenant_id)),
)
CHANGE_REQUEST = Query(
    "Changes what a task may be given.",
    update(tasks)
    .values(request=value("new_request"))
    .where(tasks.c.job_id == value("job"), tasks.c.task_index == value("task")),
)


def living(session: Session, tenant_id: str) -> list[Living]:
    lost: defaultdict[TaskId, tuple[LostRun, ...]] = defaultdict(tuple)
    for run in lost_runs.below(session, tenant_id):
        lost[run.task_id] += (run,)
    return [
        Living(
            TaskId(job_id, index),
            owner,
            codec.request_from(request),
            Standing(standing),
            reserved,
            lost.get(TaskId(job_id, index), ()),
        )
        for job_id, index, owner, request, standing, reserved in session.rows(LIVING, **within(tenant_id))
    ]


def change_requests(session: Session, changed: Sequence[tuple[TaskId, Request]]) -> None:
    rows: list[Values] = [
        {"job": task_id.job_id, "task": task_id.task_index, "new_request": codec.text_of(request)}
        for task_id, request in changed
    ]
    session.change_each(CHANGE_REQUEST, rows)
