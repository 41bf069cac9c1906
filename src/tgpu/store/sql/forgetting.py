"""Jobs that need not be remembered any more: they go with all that happened to them. What they used stays."""

from sqlalchemy import and_, delete, exists, select

from tgpu.domain.lifecycle import AttemptState
from tgpu.store.sql import cluster
from tgpu.store.sql.moves import HOLD_JOB
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.tables import LIVE_STATUSES, attempts, events, jobs, needs, tasks

_waiter = jobs.alias("waiter")
DUE = Query(
    "Jobs that ended long enough ago, for which nobody waits and of which nothing is left anywhere.",
    select(jobs.c.job_id)
    .where(
        jobs.c.forget_ms.is_not(None),
        jobs.c.ended_ms.is_not(None),
        jobs.c.ended_ms + jobs.c.forget_ms <= value("at"),
        ~exists().where(
            needs.c.on_job_id == jobs.c.job_id,
            _waiter.c.job_id == needs.c.job_id,
            _waiter.c.status.in_([constant(status) for status in LIVE_STATUSES]),
        ),
        ~exists().where(
            and_(attempts.c.job_id == jobs.c.job_id, attempts.c.state != constant(AttemptState.ENDED))
        ),
    )
    .order_by(jobs.c.job_id)
    .limit(value("most"))
    .offset(constant(0)),
)
PARTS = tuple(
    Query(f"Forgets the {table.name} of a job.", delete(table).where(table.c.job_id == value("job")))
    for table in (events, attempts, tasks, needs, jobs)
)


def forget(session: Session, epoch: int, at_ms: int, most: int) -> int:
    cluster.check_epoch(session, epoch)
    due = [job_id for (job_id,) in session.rows(DUE, at=at_ms, most=most)]
    session.hold(HOLD_JOB, [{"job": job_id} for job_id in due])
    for job_id in due:
        for query in PARTS:
            session.change(query, job=job_id)
    return len(due)
