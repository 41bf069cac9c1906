"""What the control loop reads: everything that is live, and then what users asked for since."""

from dataclasses import replace
from functools import lru_cache

from sqlalchemy import BigInteger, and_, cast, exists, func, select

from tgpu.domain import job_status
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, TaskBrief
from tgpu.domain.lifecycle import WAITING, Happening, Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Standing
from tgpu.store import event_data
from tgpu.store.event_data import CANCEL_REQUESTED
from tgpu.store.job_sum import tally_of
from tgpu.store.port import CancelAsked, Changes, LiveSummary, World
from tgpu.store.sql import cluster, codec, jobs, restoring, tenants, windows
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import LIVE_STATUSES, events, meta, tasks
from tgpu.store.tables import jobs as job_rows
from tgpu.store.tables import tenants as tenant_rows
from tgpu.store.tables import windows as window_rows

_BRIEF = (
    tasks.c.job_id,
    tasks.c.task_index,
    tasks.c.status,
    tasks.c.request,
    job_rows.c.user,
    job_rows.c.tenant_id,
    job_rows.c.name,
    job_rows.c.priority_class,
    job_rows.c.priority,
    job_rows.c.submitted_ms,
    tasks.c.attempts,
    job_rows.c.time_limit_s,
    job_rows.c.max_wait_s,
    job_rows.c.requeue,
    job_rows.c.grace_s,
    job_rows.c.cancel_by,
    job_rows.c.cancel_now,
    tasks.c.standing,
    job_rows.c.gang,
    job_rows.c.tally,
    tasks.c.checkpoint_ms,
)
_STATUS = {status.value: status for status in Status}
_CLASS = {name.value: name for name in PriorityClass}
_CHARGED, _BURST = Standing.CHARGED.value, Standing.BURST.value
_WAITS = {status.value for status in WAITING}
_GANGS_KEPT = 1024

LIVE_TASKS = Query(
    "Every task that is not over.",
    select(*_BRIEF)
    .join_from(tasks, job_rows, tasks.c.job_id == job_rows.c.job_id)
    .where(tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]))
    .order_by(tasks.c.job_id, tasks.c.task_index),
)
LIVE_SUMS = Query(
    "By status, how many tasks are not over and the sum of their job ids, up to some job.",
    select(tasks.c.status, func.count(), cast(func.sum(tasks.c.job_id), BigInteger))
    .where(tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]))
    .where(tasks.c.job_id <= value("up_to_job_id"))
    .group_by(tasks.c.status),
)
WISHES_AFTER = Query(
    "The events after some event, each with who wants to cancel, or the task that was submitted.",
    select(events.c.seq, events.c.kind, events.c.job_id, events.c.data, *_BRIEF)
    .select_from(events)
    .outerjoin(
        tasks,
        and_(
            events.c.kind == constant(Happening.SUBMITTED),
            tasks.c.job_id == events.c.job_id,
            tasks.c.task_index == events.c.task_index,
        ),
    )
    .outerjoin(job_rows, job_rows.c.job_id == tasks.c.job_id)
    .where(events.c.seq > value("after_seq"))
    .order_by(events.c.seq)
    .limit(value("most"))
    .offset(constant(0)),
)


_AFTER = value("after_seq")
NEWS = Query(
    "After some event: whether tenants or windows changed, and whether tenants were moved or removed.",
    select(
        exists().where(tenant_rows.c.next_seq > _AFTER),
        exists().where(window_rows.c.next_seq > _AFTER),
        exists().where(meta.c.rearranged_seq > _AFTER),
    ),
)


def load(session: Session) -> World:
    return World(
        seq=cluster.last_seq(session),
        nodes=cluster.all_nodes(session),
        tasks=[_brief(row) for row in session.stream(LIVE_TASKS)],
        attempts=jobs.live_attempts(session),
        tenants=tenants.terms(session),
        windows=windows.not_cancelled(session),
        restored=restoring.is_restored(session),
    )


def live_summary(session: Session, up_to_job_id: int) -> LiveSummary:
    return LiveSummary(
        tasks={
            _STATUS[status]: (number, total)
            for status, number, total in session.rows(LIVE_SUMS, up_to_job_id=up_to_job_id)
        },
        attempts=jobs.live_places(session),
    )


def changes(session: Session, after_seq: int, limit: int) -> Changes:
    seq, scanned = after_seq, 0
    submitted: list[TaskBrief] = []
    cancels: list[CancelAsked] = []
    for seq, kind, job_id, data, *brief in session.stream(WISHES_AFTER, after_seq=after_seq, most=limit):  # noqa: B007  `seq` is where the scan ended
        scanned += 1
        if kind == CANCEL_REQUESTED:
            cancels.append(event_data.cancel_asked(job_id, codec.data_from(data)))
        elif brief[2] in _WAITS:
            submitted.append(_brief(tuple(brief)))
    of_tenants, of_windows, rearranged = session.the_row(NEWS, after_seq=after_seq)
    return Changes(
        seq,
        submitted,
        cancels,
        more=scanned == limit,
        tenants=tenants.changed_terms(session, after_seq) if of_tenants else [],
        windows=windows.changed(session, after_seq) if of_windows else [],
        rearranged=bool(rearranged),
    )


def _brief(row: Row) -> TaskBrief:
    (job_id, task_index, status, request, user, tenant_id, name, priority_class, priority, submitted_ms,
     attempts, time_limit_s, max_wait_s, requeue, grace_s, cancel_by, cancel_now,
     standing, gang, tally, checkpoint_ms) = row  # fmt: skip
    return TaskBrief(
        TaskId(job_id, task_index),
        _STATUS[status],
        codec.request_from(request),
        codec.shared(user),
        codec.shared(tenant_id),
        codec.shared(name),
        _CLASS[priority_class],
        priority,
        submitted_ms,
        attempts,
        time_limit_s,
        max_wait_s,
        bool(requeue),
        0 if cancel_now else grace_s,
        cancel_by,
        None if gang is None else _gang(gang, tally),
        held=standing != _CHARGED,
        burst=standing == _BURST,
        checkpoint_ms=checkpoint_ms,
    )


@lru_cache(maxsize=_GANGS_KEPT)
def _gang(text: str, tally: str | None) -> Gang:
    """One object for all tasks of a gang."""
    over = 0 if tally is None else job_status.over(tally_of(tally).counts)
    return replace(codec.gang_from(text), over=over)
