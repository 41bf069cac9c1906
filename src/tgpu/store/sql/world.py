"""What the control loop reads: everything that is live, and then what users asked for since."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from sqlalchemy import BigInteger, and_, case, cast, exists, func, null, select

from tgpu.domain import job_status
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Job, TaskBrief
from tgpu.domain.lifecycle import WAITING, Happening, Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Standing
from tgpu.store import event_data
from tgpu.store.event_data import CANCEL_REQUESTED
from tgpu.store.job_sum import tally_of
from tgpu.store.port import CancelAsked, Changes, LiveSummary, World
from tgpu.store.series_port import RestartAsked, TasksCancelled
from tgpu.store.sql import cluster, codec, jobs, needs, restoring, tenants, windows
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import LIVE_STATUSES, events, meta, tasks
from tgpu.store.tables import jobs as job_rows
from tgpu.store.tables import tenants as tenant_rows
from tgpu.store.tables import windows as window_rows
from tgpu.store.unreadable import Unreadable

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
    case((tasks.c.waiting_since_ms == job_rows.c.submitted_ms, job_rows.c.max_wait_s)).label("max_wait_s"),
    job_rows.c.requeue,
    job_rows.c.grace_s,
    job_rows.c.cancel_by,
    job_rows.c.cancel_now,
    tasks.c.standing,
    job_rows.c.gang,
    job_rows.c.tally,
    tasks.c.checkpoint_ms,
    job_rows.c.timing,
    job_rows.c.retries,
    tasks.c.failures,
    tasks.c.eligible_ms,
    tasks.c.cancel_by.label("task_cancel_by"),
    job_rows.c.command_signature,
    job_rows.c.followed,
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
LIVE_OF = Query(
    "Every task of a job that is not over.",
    select(*_BRIEF)
    .join_from(tasks, job_rows, tasks.c.job_id == job_rows.c.job_id)
    .where(tasks.c.job_id == value("job"), tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]))
    .order_by(tasks.c.task_index),
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
    select(
        events.c.seq,
        events.c.kind,
        events.c.job_id,
        events.c.task_index.label("named"),
        events.c.data,
        *_BRIEF,
    )
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


RESTARTS = Query(
    "Tasks that have a node and are to start anew, and who wants it.",
    select(tasks.c.job_id, tasks.c.task_index, tasks.c.restart_by)
    .where(
        tasks.c.status.in_([constant(status) for status in LIVE_STATUSES]), tasks.c.restart_by.is_not(null())
    )
    .order_by(tasks.c.job_id, tasks.c.task_index),
)
ONE_THAT_WAITS = Query(
    "A task of a job, if it waits.",
    select(*_BRIEF)
    .join_from(tasks, job_rows, tasks.c.job_id == job_rows.c.job_id)
    .where(
        tasks.c.job_id == value("job"),
        tasks.c.task_index == value("task"),
        tasks.c.status.in_([constant(status) for status in sorted(WAITING)]),
    ),
)


class _Wishes:
    """What users want of jobs that there are."""

    def __init__(self) -> None:
        self.cancels: list[CancelAsked] = []
        self.altered: dict[int, None] = {}
        self.tasks_cancelled: list[TasksCancelled] = []
        self.restarts: list[RestartAsked] = []
        self.suspended: list[int] = []

    def read(self, kind: str, job_id: int, task_index: int | None, data: str) -> None:
        """One event."""
        if kind == CANCEL_REQUESTED:
            told = codec.data_from(data)
            if (some := event_data.tasks_cancelled(job_id, told)) is not None:
                self.tasks_cancelled.append(some)
            else:
                self.cancels.append(event_data.cancel_asked(job_id, told))
        elif kind == event_data.RESTART_REQUESTED:
            self.restarts.append(RestartAsked(job_id, task_index or 0, str(codec.data_from(data)["by"])))
        elif kind in event_data.ALTERING:
            self.altered[job_id] = None
            if kind == event_data.SUSPENDED:
                self.suspended.append(job_id)


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
    seq, unreadable = cluster.last_seq(session), Unreadable()
    live = unreadable.jobs_read(session.stream(LIVE_TASKS), _brief)
    series = jobs.followed(session, unreadable)
    return World(
        seq=seq,
        nodes=cluster.all_nodes(session, unreadable),
        tasks=live,
        attempts=jobs.live_attempts(session, unreadable),
        tenants=tenants.terms(session),
        windows=windows.not_cancelled(session),
        restored=restoring.is_restored(session),
        needs=needs.of_jobs(session, _unmet(live) | _unmet_series(series)),
        series=series,
        restarts=[RestartAsked(*row) for row in session.rows(RESTARTS)],
        lost=jobs.lost_places(session),
        unreadable=unreadable,
    )


def _unmet(briefs: list[TaskBrief]) -> set[int]:
    """The jobs, of these tasks, that wait for others."""
    return {brief.task_id.job_id for brief in briefs if brief.timing is not None and brief.timing.unmet}


def _unmet_series(series: list[Job]) -> set[int]:
    """Those that wait for others, also if none of their tasks is live just now."""
    return {job.job_id for job in series if job.timing is not None and job.timing.unmet}


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
    wishes, followed, unreadable = _Wishes(), dict[int, None](), Unreadable()
    for seq, kind, job_id, named, data, *brief in session.stream(  # noqa: B007  `seq` is where the scan ended
        WISHES_AFTER, after_seq=after_seq, most=limit
    ):
        scanned += 1
        if brief[2] in _WAITS:
            submitted += unreadable.jobs_read([tuple(brief)], _brief)
            if brief[-1]:
                followed[job_id] = None
        else:
            wishes.read(kind, job_id, named, data)
    of_tenants, of_windows, rearranged = session.the_row(NEWS, after_seq=after_seq)
    followed |= dict.fromkeys(wishes.altered)
    books = jobs.several(session, [{"job": job_id} for job_id in followed])
    return Changes(
        seq,
        submitted,
        wishes.cancels,
        more=scanned == limit,
        tenants=tenants.changed_terms(session, after_seq) if of_tenants else [],
        windows=windows.changed(session, after_seq) if of_windows else [],
        rearranged=bool(rearranged),
        altered=unreadable.jobs_read(
            (row for job_id in wishes.altered for row in session.rows(LIVE_OF, job=job_id)), _brief
        ),
        needs=needs.of_jobs(session, _unmet(submitted)),
        series=[job for job in books if job and job.spec.is_followed and not job.status.is_final],
        tasks_cancelled=wishes.tasks_cancelled,
        restarts=wishes.restarts,
        suspended=wishes.suspended,
        unreadable=unreadable,
    )


def waiting_alike(session: Session, job_id: int, positions: Sequence[int]) -> list[TaskBrief]:
    """These tasks of a job, which were added just now and differ in nothing but their number."""
    if not positions:
        return []
    first = _brief(session.the_row(ONE_THAT_WAITS, job=job_id, task=positions[0]))
    return [replace(first, task_id=TaskId(job_id, position)) for position in positions]


def _brief(row: Row) -> TaskBrief:
    (job_id, task_index, status, request, user, tenant_id, name, priority_class, priority, submitted_ms,
     attempts, time_limit_s, max_wait_s, requeue, grace_s, cancel_by, cancel_now,
     standing, gang, tally, checkpoint_ms, timing_text, retries, failures, eligible_ms, task_cancel_by,
     command, _) = row  # fmt: skip
    timing = codec.timing_from(timing_text)
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
        cancel_by or task_cancel_by,
        None if gang is None else _gang(gang, tally),
        held=standing != _CHARGED,
        burst=standing == _BURST,
        eligible_ms=eligible_ms if timing is None else max(eligible_ms, timing.begin_ms or 0),
        checkpoint_ms=checkpoint_ms,
        timing=timing,
        failures=failures,
        retries=None if retries is None else codec.retries_from(retries),
        command=codec.shared(command or ""),
    )


@lru_cache(maxsize=_GANGS_KEPT)
def _gang(text: str, tally: str | None) -> Gang:
    """One object for all tasks of a gang."""
    over = 0 if tally is None else job_status.over(tally_of(tally).counts)
    return replace(codec.gang_from(text), over=over)
