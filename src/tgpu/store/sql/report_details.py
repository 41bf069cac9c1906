"""Details of reports: how long attempts waited, as counts per length, and how long tasks ran that failed."""

from collections.abc import Mapping
from functools import lru_cache

from sqlalchemy import case, func, select

from tgpu.domain.lifecycle import Status
from tgpu.store.sql import usage_kinds
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.sql.usage_kinds import Kind
from tgpu.store.sql.usage_report import dimensions, running, stretches
from tgpu.store.tables import jobs, tasks, usage
from tgpu.store.tables import usage_kinds as kind_rows
from tgpu.store.usage_port import WAIT_SCALES, GroupBy, ReportDetail, ReportFilter
from tgpu.store.usage_sums import DetailTally, bounds, dimensions_of, is_wanted

_FROM, _UNTIL = value("from_ms"), value("until_ms")
_WAIT = usage.c.wait_ms
_ROUNDED = case(
    *(
        (constant(100 * scale) > _WAIT, _WAIT // constant(scale // 10) * constant(scale // 10))
        for scale in WAIT_SCALES
    ),
    else_=_WAIT // constant(WAIT_SCALES[-1]) * constant(WAIT_SCALES[-1]),
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
    tally, kinds = DetailTally(where, by), usage_kinds.every(session)
    wanted = {kind_id: kind for kind_id, kind in kinds.items() if is_wanted(where, dimensions(kind, ""))}
    for from_ms, until_ms in stretches(session, where, by):
        query = _waits(with_nodes=GroupBy.NODE in by)
        before: list[object] = []
        waits: dict[int, int] | None = None
        for row in session.rows(query, from_ms=from_ms, until_ms=until_ms):
            *place, wait_ms, count = row
            if place != before:  # the rows of a kind come together
                before, waits = place, None
                if (kind := wanted.get(place[0])) is not None:
                    waits = tally.waits_of(dimensions(kind, place[1] if len(place) > 1 else ""), from_ms)
            if waits is not None:
                waits[wait_ms] = waits.get(wait_ms, 0) + count
    for spent in running(session, now_ms):
        if is_wanted(where, dimensions_of(spent)):
            tally.add_wait(spent)
    _add_failed(session, tally, wanted, where)
    return tally.details


@lru_cache(maxsize=2)
def _waits(*, with_nodes: bool) -> Query:
    columns = [usage.c.kind_id, usage.c.node_id] if with_nodes else [usage.c.kind_id]
    wait = _ROUNDED.label("wait")
    return Query(
        "How many attempts that began in a time waited how long.",
        select(*columns, wait, func.count())
        .where(
            usage.c.kind_id.in_(select(kind_rows.c.kind_id)),
            usage.c.ended_ms >= _FROM,
            usage.c.started_ms >= _FROM,
            usage.c.started_ms < _UNTIL,
        )
        .group_by(*columns, wait),
    )


def _add_failed(
    session: Session, tally: DetailTally, wanted: Mapping[int, Kind], where: ReportFilter
) -> None:
    from_ms, until_ms = bounds(where)
    for kind_id, node_id, started_ms, ended_ms, gpu_milli in session.stream(
        FAILED, from_ms=from_ms, until_ms=until_ms
    ):
        kind = wanted.get(kind_id)
        if kind is not None:
            key = tally.key_of(dimensions(kind, node_id))
            tally.add_failed(key, started_ms, ended_ms, gpu_milli)
