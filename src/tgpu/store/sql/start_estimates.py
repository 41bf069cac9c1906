"""First estimates of starts, kept until they are scored and some time after; and recent run times."""

from sqlalchemy import delete, func, insert, select, update

from tgpu.domain.lifecycle import Cause
from tgpu.domain.start_estimate import SCORED_KEPT, StartEstimate
from tgpu.store.estimate_port import MOST_TASKS_OF_A_JOB, EstimateChanges, PastRun
from tgpu.store.sql import cluster, codec
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import jobs, start_estimates, usage, usage_kinds

_ROWS = start_estimates.c
_FIELDS = (
    _ROWS.job_id, _ROWS.made_ms, _ROWS.earliest_ms, _ROWS.expected_ms, _ROWS.latest_ms, _ROWS.started_ms,
)  # fmt: skip

ADD = Query("Adds the first estimate of a job.", insert(start_estimates))
KNOWN = Query("Whether a job has an estimate.", select(_ROWS.job_id).where(_ROWS.job_id == value("job")))
START = Query(
    "Notes when a job with an estimate has started.",
    update(start_estimates)
    .values(started_ms=value("at"))
    .where(_ROWS.job_id == value("job"), _ROWS.started_ms.is_(None)),
)
DROP = Query(
    "Removes the estimate of a job that will not start.",
    delete(start_estimates).where(_ROWS.job_id == value("job"), _ROWS.started_ms.is_(None)),
)
SCORED = Query(
    "How many estimates are of jobs that have started.",
    select(func.count()).select_from(start_estimates).where(_ROWS.started_ms.is_not(None)),
)
_oldest = (
    select(_ROWS.job_id)
    .where(_ROWS.started_ms.is_not(None))
    .order_by(_ROWS.started_ms, _ROWS.job_id)
    .limit(value("most"))
    .offset(constant(0))
)
PRUNE = Query(
    "Removes the estimates of the jobs that started first.",
    delete(start_estimates).where(_ROWS.job_id.in_(_oldest)),
)
ALL = Query("All estimates.", select(*_FIELDS).order_by(_ROWS.job_id))
ALL_SCORED = Query(
    "The estimates of jobs that have started.",
    select(*_FIELDS).where(_ROWS.started_ms.is_not(None)).order_by(_ROWS.job_id),
)
RECENT_RUNS = Query(
    "Run times of the jobs that ended last.",
    select(
        jobs.c.user,
        jobs.c.name,
        jobs.c.command_signature,
        usage.c.gpu_milli,
        jobs.c.time_limit_s,
        usage.c.ended_ms - usage.c.started_ms,
        usage_kinds.c.cause,
    )
    .select_from(jobs)
    .join(usage, usage.c.job_id == jobs.c.job_id)
    .join(usage_kinds, usage_kinds.c.kind_id == usage.c.kind_id)
    .where(jobs.c.ended_ms.is_not(None), usage.c.task_index < constant(MOST_TASKS_OF_A_JOB))
    .order_by(jobs.c.ended_ms.desc(), jobs.c.job_id.desc(), usage.c.task_index.desc(), usage.c.number.desc())
    .limit(value("most"))
    .offset(constant(0)),
)


def note(session: Session, epoch: int, changes: EstimateChanges) -> None:
    cluster.check_epoch(session, epoch)
    rows: list[Values] = [{"job": made.job_id} for made in changes.made]
    known = session.row_each(KNOWN, rows)
    fresh = [made for made, row in zip(changes.made, known, strict=True) if row is None]
    if fresh:
        session.change_many(
            ADD,
            [
                {
                    "job_id": made.job_id,
                    "made_ms": made.made_ms,
                    "earliest_ms": made.earliest_ms,
                    "expected_ms": made.expected_ms,
                    "latest_ms": made.latest_ms,
                    "started_ms": made.started_ms,
                }
                for made in fresh
            ],
        )
    for job_id, at_ms in changes.started:
        session.change(START, job=job_id, at=at_ms)
    for job_id in changes.dropped:
        session.change(DROP, job=job_id)
    too_many = session.the_row(SCORED)[0] - SCORED_KEPT
    if too_many > 0:
        session.change(PRUNE, most=too_many)


def every(session: Session) -> list[StartEstimate]:
    return [StartEstimate(*row) for row in session.rows(ALL)]


def scored(session: Session) -> list[StartEstimate]:
    return [StartEstimate(*row) for row in session.rows(ALL_SCORED)]


def recent_runs(session: Session, limit: int) -> list[PastRun]:
    found = session.rows(RECENT_RUNS, most=limit)
    return [
        PastRun(
            codec.shared(user),
            codec.shared(name),
            codec.shared(command or ""),
            gpu_milli,
            limit_s,
            run_ms,
            Cause(cause) if cause else None,
        )
        for user, name, command, gpu_milli, limit_s, run_ms, cause in reversed(found)
    ]
