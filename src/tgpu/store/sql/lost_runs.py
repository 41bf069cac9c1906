"""Attempts that are lost, and what was counted of their runs."""

from sqlalchemy import select

from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.tenant import is_within
from tgpu.store.demand import Run
from tgpu.store.lost_run import LostRun
from tgpu.store.sql import codec
from tgpu.store.sql.session import Query, Session, constant
from tgpu.store.tables import LIVE_STATUSES, attempts, jobs, tasks

LOST = Query(
    "Every attempt that is lost after it began, of tasks that are not over.",
    select(
        attempts.c.job_id,
        attempts.c.task_index,
        jobs.c.tenant_id,
        tasks.c.request,
        attempts.c.started_ms,
        attempts.c.exit,
    )
    .select_from(attempts)
    .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
    .join(jobs, jobs.c.job_id == attempts.c.job_id)
    .where(
        attempts.c.state != constant(AttemptState.ENDED),  # as the index on those that are live says it
        attempts.c.state == constant(AttemptState.LOST),
        attempts.c.started_ms.is_not(None),
        attempts.c.exit.is_not(None),
        tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]),
    ),
)


def everywhere(session: Session) -> list[LostRun]:
    return _found(session, None)


def below(session: Session, tenant_id: str) -> list[LostRun]:
    """Of a tenant and everybody below it."""
    return _found(session, tenant_id)


def _found(session: Session, top: str | None) -> list[LostRun]:
    return [
        LostRun(
            TaskId(job_id, task_index),
            owner,
            codec.request_from(request),
            Run(started_ms, codec.exit_from(ended).ended_ms),
        )
        for job_id, task_index, owner, request, started_ms, ended in session.rows(LOST)
        if top is None or is_within(owner, top)
    ]
