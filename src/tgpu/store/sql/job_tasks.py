"""The tasks of one job, a page at a time, each with the attempt that tells most of it."""

from sqlalchemy import ColumnElement, Select, select

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, TaskView
from tgpu.domain.lifecycle import Cause, Status
from tgpu.store.attempt_shown import shown
from tgpu.store.sql import codec, jobs
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import attempts, tasks
from tgpu.store.tables import jobs as job_rows
from tgpu.store.task_paging import StatusRun, TaskPaging, runs_of

_FIELDS = (
    tasks.c.task_index,
    tasks.c.group_index,
    tasks.c.status,
    tasks.c.attempts,
    tasks.c.cause,
    tasks.c.detail,
    tasks.c.checkpoint_ms,
)


def _page(*narrowing: ColumnElement[bool]) -> Select[Row]:
    return (
        select(*_FIELDS)
        .where(tasks.c.job_id == value("job"), tasks.c.task_index > value("after"), *narrowing)
        .order_by(tasks.c.task_index)
        .limit(value("most"))
        .offset(constant(0))
    )


SPEC = Query("What a job is asked to do.", select(job_rows.c.spec).where(job_rows.c.job_id == value("job")))
TASKS = Query("Tasks of a job in their order, after one of them.", _page())
TASKS_OF_STATUS = Query("Those of one status.", _page(tasks.c.status == value("wanted_status")))
STATUSES = Query(
    "The status of each task of a job, in their order.",
    select(tasks.c.status).where(tasks.c.job_id == value("job")).order_by(tasks.c.task_index),
)
ATTEMPTS = Query(
    "The attempts of a stretch of a job's tasks.",
    select(*jobs.ATTEMPT_FIELDS)
    .where(
        attempts.c.job_id == value("job"),
        attempts.c.task_index >= value("first"),
        attempts.c.task_index <= value("last"),
    )
    .order_by(attempts.c.task_index, attempts.c.number),
)
ATTEMPTS_OF_STATUS = Query(
    "Those of the tasks there that have one status: these may lie far apart.",
    select(*jobs.ATTEMPT_FIELDS)
    .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
    .where(
        tasks.c.job_id == value("job"),
        tasks.c.task_index >= value("first"),
        tasks.c.task_index <= value("last"),
        tasks.c.status == value("wanted_status"),
    )
    .order_by(attempts.c.task_index, attempts.c.number),
)


def page(session: Session, job_id: int, paging: TaskPaging) -> list[TaskView]:
    row = session.row(SPEC, job=job_id)
    if row is None:
        return []
    names = [group.name for group in codec.spec_from(row[0]).groups]
    found = _rows(session, job_id, paging)
    if not found:
        return []
    tried: dict[int, list[Attempt]] = {}
    for each in _attempts(session, job_id, found, paging):
        attempt = jobs.attempt_from(each)
        tried.setdefault(attempt.attempt_id.task_index, []).append(attempt)
    return [
        TaskView(
            TaskId(job_id, index),
            names[group],
            Status(status),
            number,
            shown(tried.get(index, [])),
            None if cause is None else Cause(cause),
            detail or "",
            checkpoint_ms,
        )
        for index, group, status, number, cause, detail, checkpoint_ms in found
    ]


def statuses(session: Session, job_id: int) -> list[StatusRun]:
    return runs_of(row[0] for row in session.rows(STATUSES, job=job_id))


def _attempts(session: Session, job_id: int, found: list[Row], paging: TaskPaging) -> list[Row]:
    about: dict[str, object] = {"job": job_id, "first": found[0][0], "last": found[-1][0]}
    if not paging.statuses:
        return session.rows(ATTEMPTS, **about)
    return [
        row
        for status in sorted({row[2] for row in found})
        for row in session.rows(ATTEMPTS_OF_STATUS, wanted_status=status, **about)
    ]


def _rows(session: Session, job_id: int, paging: TaskPaging) -> list[Row]:
    page: dict[str, object] = {"job": job_id, "after": paging.after, "most": paging.limit}
    if not paging.statuses:
        return session.rows(TASKS, **page)
    found = [
        row
        for status in sorted(paging.statuses)
        for row in session.rows(TASKS_OF_STATUS, wanted_status=status.value, **page)
    ]
    return sorted(found)[: paging.limit]
