"""Details of reports: how long attempts waited, as counts per length, and how long tasks ran that failed."""

from functools import lru_cache

from sqlalchemy import BigInteger, case, cast, func, select

from tgpu.domain.lifecycle import Status
from tgpu.store.sql import usage_kinds
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.sql.usage_report import COLUMNS, dimensions, running
from tgpu.store.tables import jobs, tasks, usage
from tgpu.store.tables import usage_kinds as kind_rows
from tgpu.store.usage_port import WAIT_SCALES, GroupBy, ReportDetail, ReportFilter
from tgpu.store.usage_sums import DAY_MS, DetailTally, asked_of, bounds, dimensions_of, is_wanted

_FROM, _UNTIL = value("from_ms"), value("until_ms")
_WAIT = usage.c.wait_ms
_ROUNDED = case(
    *((constant(100 * scale) > _WAIT, _WAIT // constant(scale) * constant(scale)) for scale in WAIT_SCALES),
    else_=_WAIT // constant(10 * WAIT_SCALES[-1]) * constant(10 * WAIT_SCALES[-1]),
)
FAILED = Query(
    "Attempts of tasks that failed.",
    select(usage.c.kind_id, usage.c.node_id, usage.c.started_ms, usage.c.ended_ms, usage.c.gpu_milli)
    .select_from(jobs)
    .join(tasks, tasks.c.job_id == jobs.c.job_id)
    .join(usage, (usage.c.job_id == tasks.c.job_id) & (usage.c.task_index == tasks.c.task_index))
    .where(
        jobs.c.status == constant(Status.FAILED),
        jobs.c.ended_ms >= _FROM,
        tasks.c.status == constant(Status.FAILED),
        usage.c.ended_ms >= _FROM,
        usage.c.started_ms < _UNTIL,
    ),
)


def report_details(
    session: Session, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int
) -> dict[tuple[str, ...], ReportDetail]:
    tally = DetailTally(where, by)
    known = tuple(each for each in COLUMNS if each in by or each in asked_of(where))
    from_ms, until_ms = bounds(where)
    query = _waits(known, by_day=any(each.is_time for each in by))
    for *said, day, wait_ms, count in session.rows(query, from_ms=from_ms, until_ms=until_ms):
        of = dict.fromkeys(COLUMNS, "") | dict(zip(known, said, strict=True))
        if is_wanted(where, of):
            waits = tally.waits_of(of, int(day) * DAY_MS)
            waits[wait_ms] = waits.get(wait_ms, 0) + count
    for spent in running(session, now_ms):
        if is_wanted(where, dimensions_of(spent)):
            tally.add_wait(spent)
    _add_failed(session, tally, where)
    return tally.details


@lru_cache(maxsize=128)
def _waits(known: tuple[GroupBy, ...], *, by_day: bool) -> Query:
    """All in one pass: first kind by kind, in the order in which the rows are kept, if kinds matter."""
    of_kinds = any(each is not GroupBy.NODE for each in known)
    day = (usage.c.started_ms // constant(DAY_MS) if by_day else constant(0)).label("day")
    wait = _ROUNDED.label("wait")
    groups = [
        *([usage.c.kind_id] if of_kinds else []),
        *([usage.c.node_id] if GroupBy.NODE in known else []),
    ]
    found = (
        select(*groups, day, wait, func.count().label("number"))
        .where(
            usage.c.kind_id.in_(select(kind_rows.c.kind_id)),
            usage.c.ended_ms >= _FROM,
            usage.c.started_ms >= _FROM,
            usage.c.started_ms < _UNTIL,
        )
        .group_by(*groups, *([day] if by_day else []), wait)
    )
    sentence = "How many attempts that began in a time, or on each day of it, waited how long."
    if not of_kinds:
        return Query(sentence, found)
    part = found.subquery()
    columns = [part.c.node_id if each is GroupBy.NODE else COLUMNS[each] for each in known]
    return Query(
        sentence,
        select(*columns, part.c.day, part.c.wait, cast(func.sum(part.c.number), BigInteger))
        .join_from(part, kind_rows, kind_rows.c.kind_id == part.c.kind_id)
        .group_by(*columns, part.c.day, part.c.wait),
    )


def _add_failed(session: Session, tally: DetailTally, where: ReportFilter) -> None:
    kinds, (from_ms, until_ms) = usage_kinds.every(session), bounds(where)
    for kind_id, node_id, started_ms, ended_ms, gpu_milli in session.stream(
        FAILED, from_ms=from_ms, until_ms=until_ms
    ):
        of = dimensions(kinds[kind_id], node_id)
        if is_wanted(where, of):
            tally.add_failed(tally.key_of(of), started_ms, ended_ms, gpu_milli)
