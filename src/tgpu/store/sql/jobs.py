"""Jobs as users see them: one, a page of many, their attempts, how many there are.

A page is found by walking an index in the order of ids, one walk per status (and user) asked for, merged:
each walk stops as soon as the page is full, so a page costs the same among a hundred jobs and a million.
"""

from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice, product
from operator import itemgetter

from sqlalchemy import ColumnElement, func, null, select

from tgpu.domain.ids import MAX_JOB_ID, AttemptId
from tgpu.domain.job import Attempt, Job
from tgpu.domain.lifecycle import AttemptState, Cause, Status
from tgpu.domain.quota import Standing
from tgpu.store.growth import skipped_of
from tgpu.store.job_filter import JobFilter, Paging, Seen
from tgpu.store.job_sum import tally_of
from tgpu.store.lost import Origin
from tgpu.store.port import Counts, JobTimes
from tgpu.store.sql import codec
from tgpu.store.sql.job_conditions import RAN, SEEN, WANTED, asks_how_it_ran, seen_values, wanted_values
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import LIVE_STATUSES, attempts, jobs, tasks
from tgpu.store.unreadable import Unreadable

_FIELDS = (
    jobs.c.job_id,
    jobs.c.spec,
    jobs.c.tenant_id,
    jobs.c.status,
    jobs.c.submitted_ms,
    jobs.c.cause,
    jobs.c.detail,
    jobs.c.exit_code,
    jobs.c.node_id,
    jobs.c.devices,
    jobs.c.attempts,
    jobs.c.started_ms,
    jobs.c.ended_ms,
    jobs.c.cancel_by,
    select(tasks.c.standing)
    .where(tasks.c.job_id == jobs.c.job_id, tasks.c.task_index == constant(0))
    .scalar_subquery(),
    jobs.c.tally,
    jobs.c.timing,
    jobs.c.born,
    jobs.c.skipped,
)
ATTEMPT_FIELDS = (
    attempts.c.job_id,
    attempts.c.task_index,
    attempts.c.number,
    attempts.c.state,
    attempts.c.node_id,
    attempts.c.devices,
    attempts.c.assigned_ms,
    attempts.c.started_ms,
    attempts.c.exit,
    attempts.c.stop_cause,
    attempts.c.stop_by,
)


def _walk(sentence: str, *narrowing: ColumnElement[bool]) -> dict[tuple[bool, bool], Query]:
    """The same walk in both directions, by `oldest_first`, without and with what asks how jobs ran."""
    walks: dict[tuple[bool, bool], Query] = {}
    for asks, conditions in ((False, WANTED), (True, (*WANTED, *RAN))):
        wanted = select(*_FIELDS).where(*narrowing, *conditions).limit(value("most")).offset(constant(0))
        walks[asks, True] = Query(sentence, wanted.order_by(jobs.c.job_id))
        walks[asks, False] = Query(sentence, wanted.order_by(jobs.c.job_id.desc()))
    return walks


_OF_STATUS = jobs.c.status == value("wanted_status")
ONE = Query("One job.", select(*_FIELDS).where(jobs.c.job_id == value("job")))
ANY = _walk("Jobs in the order of their ids.")
ANY_OF_STATUS = _walk("Jobs of one status in the order of their ids.", _OF_STATUS)
ANY_OF_USER = _walk(
    "Jobs of one user and status in the order of their ids.", jobs.c.user == value("wanted_user"), _OF_STATUS
)
ATTEMPTS = Query(
    "Every attempt of a job.",
    select(*ATTEMPT_FIELDS)
    .where(attempts.c.job_id == value("job"))
    .order_by(attempts.c.task_index, attempts.c.number)
    .limit(value("most"))
    .offset(constant(0)),
)
ATTEMPTS_OF_TASK = Query(
    "Every attempt of a task.",
    select(*ATTEMPT_FIELDS)
    .where(attempts.c.job_id == value("job"), attempts.c.task_index == value("task"))
    .order_by(attempts.c.number)
    .limit(value("most"))
    .offset(constant(0)),
)
ONE_ATTEMPT = Query(
    "One attempt.",
    select(*ATTEMPT_FIELDS).where(
        attempts.c.job_id == value("job"),
        attempts.c.task_index == value("task"),
        attempts.c.number == value("which"),
    ),
)
LIVE_ATTEMPTS = Query(
    "Every attempt that holds something.",
    select(*ATTEMPT_FIELDS)
    .where(attempts.c.state != constant(AttemptState.ENDED), attempts.c.state != constant(AttemptState.LOST))
    .order_by(attempts.c.job_id, attempts.c.task_index, attempts.c.number),
)
FOLLOWED = Query(
    "Live jobs of which whoever schedules keeps a book.",
    select(*_FIELDS)
    .where(jobs.c.followed.is_not(null()), jobs.c.status.in_([constant(status) for status in LIVE_STATUSES]))
    .order_by(jobs.c.job_id),
)
LIVE_PLACES = Query(
    "Where every attempt is that holds something.",
    select(attempts.c.job_id, attempts.c.task_index, attempts.c.number, attempts.c.node_id).where(
        attempts.c.state != constant(AttemptState.ENDED), attempts.c.state != constant(AttemptState.LOST)
    ),
)
LOST_PLACES = Query(
    "Where every attempt was that is lost.",
    select(attempts.c.job_id, attempts.c.task_index, attempts.c.number, attempts.c.node_id)
    .where(
        attempts.c.state != constant(AttemptState.ENDED),  # as the index on those that are live says it
        attempts.c.state == constant(AttemptState.LOST),
    )
    .order_by(attempts.c.job_id, attempts.c.task_index, attempts.c.number),
)
_COUNTED = select(jobs.c.user, jobs.c.status, func.count()).group_by(jobs.c.user, jobs.c.status)
COUNT = Query("How many jobs of each status every user has.", _COUNTED)
COUNT_SEEN = Query("How many of those that somebody may know of.", _COUNTED.where(SEEN))
_TIMES = select(jobs.c.submitted_ms, jobs.c.started_ms, jobs.c.ended_ms)
RUNNING_TIMES = Query(
    "When the running jobs that were submitted last were submitted and started.",
    _TIMES.where(jobs.c.status == constant(Status.RUNNING.value))
    .order_by(jobs.c.job_id.desc())
    .limit(value("most"))
    .offset(constant(0)),
)
ENDED_TIMES = Query(
    "When the jobs that ended last were submitted, started and ended.",
    _TIMES.where(jobs.c.ended_ms.is_not(None))
    .order_by(jobs.c.ended_ms.desc())
    .limit(value("most"))
    .offset(constant(0)),
)


def one(session: Session, job_id: int) -> Job | None:
    row = session.row(ONE, job=job_id)
    return None if row is None else _job(row)


def several(session: Session, rows: Sequence[Values]) -> list[Job | None]:
    """For each of the different ids, given as `job`, its job if there is one."""
    return [None if row is None else _job(row) for row in session.row_each(ONE, rows)]


def followed(session: Session, unreadable: Unreadable) -> list[Job]:
    return unreadable.jobs_read(session.rows(FOLLOWED), _job)


def page(session: Session, where: JobFilter, paging: Paging) -> list[Job]:
    return [_job(row) for row in islice(_matching(session, where, paging), paging.limit)]


def _matching(session: Session, where: JobFilter, paging: Paging) -> Iterator[Row]:
    for low, high in _ranges_left(where, paging):
        walks = _walks(session, where, low, high, paging)
        yield from merge(*walks, key=itemgetter(0), reverse=not paging.oldest_first)


def _walks(session: Session, where: JobFilter, low: int, high: int, paging: Paging) -> list[Iterator[Row]]:
    kind = (asks_how_it_ran(where), paging.oldest_first)
    wanted: Values = {"low": low, "high": high, "most": paging.limit, **wanted_values(where)}
    statuses = sorted(where.statuses or Status)
    if where.users:
        query = ANY_OF_USER[kind]
        return [
            session.stream(query, wanted_user=user, wanted_status=status.value, **wanted)
            for user, status in product(sorted(where.users), statuses)
        ]
    if where.statuses:
        query = ANY_OF_STATUS[kind]
        return [session.stream(query, wanted_status=status.value, **wanted) for status in statuses]
    return [session.stream(ANY[kind], **wanted)]


def _ranges_left(where: JobFilter, paging: Paging) -> list[tuple[int, int]]:
    """Disjoint, in the order of the page, beyond the cursor."""
    first, last = 0, MAX_JOB_ID
    if paging.cursor is not None and paging.oldest_first:
        first = paging.cursor + 1
    elif paging.cursor is not None:
        last = paging.cursor - 1
    ranges: list[tuple[int, int]] = []
    for low, high in sorted(where.id_ranges or ((first, last),)):
        begin = max(low, first, ranges[-1][1] + 1 if ranges else first)
        if begin <= min(high, last):
            ranges.append((begin, min(high, last)))
    return ranges if paging.oldest_first else ranges[::-1]


def attempts_of(session: Session, job_id: int, task: int | None, most: int) -> list[Attempt]:
    if task is None:
        return [attempt_from(row) for row in session.rows(ATTEMPTS, job=job_id, most=most)]
    return [attempt_from(row) for row in session.rows(ATTEMPTS_OF_TASK, job=job_id, task=task, most=most)]


def attempt(session: Session, attempt_id: AttemptId) -> Attempt | None:
    job_id, task_index, number = attempt_id
    row = session.row(ONE_ATTEMPT, job=job_id, task=task_index, which=number)
    return None if row is None else attempt_from(row)


def origins(session: Session, attempt_ids: Sequence[AttemptId]) -> dict[AttemptId, Origin]:
    """Those of the given attempts that there are, each with its job."""
    names = dict.fromkeys(attempt_ids)
    rows: list[Values] = [
        {"job": job_id, "task": task_index, "which": number} for job_id, task_index, number in names
    ]
    tried = [attempt_from(row) for row in session.row_each(ONE_ATTEMPT, rows) if row is not None]
    job_ids = dict.fromkeys(each.attempt_id.job_id for each in tried)
    found = several(session, [{"job": job_id} for job_id in job_ids])
    specs = {job.job_id: job.spec for job in found if job is not None}
    return {each.attempt_id: Origin(each, specs[each.attempt_id.job_id]) for each in tried}


def live_attempts(session: Session, unreadable: Unreadable) -> list[Attempt]:
    return unreadable.jobs_read(session.rows(LIVE_ATTEMPTS), attempt_from)


def live_places(session: Session) -> set[tuple[AttemptId, str]]:
    return {
        (AttemptId(job_id, task_index, number), codec.shared(node_id))
        for job_id, task_index, number, node_id in session.rows(LIVE_PLACES)
    }


def lost_places(session: Session) -> list[tuple[AttemptId, str]]:
    return [(AttemptId(*name), codec.shared(node_id)) for *name, node_id in session.rows(LOST_PLACES)]


def counts(session: Session, seen: Seen | None = None) -> Counts:
    counted = Counts({}, {})
    found = session.rows(COUNT) if seen is None else session.rows(COUNT_SEEN, **seen_values(seen))
    for user, name, count in found:
        status = Status(name)
        counted.by_status[status] = counted.by_status.get(status, 0) + count
        if not status.is_final:
            counted.live_by_user[user, status] = count
    return counted


def recent_times(session: Session, limit: int) -> list[JobTimes]:
    found = (session.rows(query, most=limit) for query in (RUNNING_TIMES, ENDED_TIMES))
    return [JobTimes(*row) for rows in found for row in rows]


def _job(row: Row) -> Job:
    (
        job_id, spec, tenant_id, status_name, submitted_ms, cause, detail, exit_code, node_id, devices,
        tried, started_ms, ended_ms, cancel_by, standing, text, timing, born, skipped,
    ) = row  # fmt: skip
    status, tally = Status(status_name), None if text is None else tally_of(text)
    return Job(
        job_id,
        codec.spec_from(spec, tenant_id),
        status,
        submitted_ms,
        None if cause is None else Cause(cause),
        detail,
        exit_code,
        node_id,
        codec.devices_from(devices),
        tried,
        started_ms,
        ended_ms,
        cancel_by,
        held=status.waits and standing == Standing.HELD,
        counts=None if tally is None else tally.counts,
        timing=codec.timing_from(timing),
        born=born,
        dropped=0 if tally is None else tally.dropped,
        failures=0 if tally is None else tally.failures,
        skipped=skipped_of(skipped).wishes,
    )


def attempt_from(row: Row) -> Attempt:
    job_id, task_index, number, state, node_id, devices, assigned_ms, started_ms, ended, cause, by = row
    return Attempt(
        AttemptId(job_id, task_index, number),
        AttemptState(state),
        node_id,
        codec.devices_from(devices),
        assigned_ms,
        started_ms,
        None if ended is None else codec.exit_from(ended),
        None if cause is None else Cause(cause),
        by,
    )
