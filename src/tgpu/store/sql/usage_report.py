"""Reports on what was used: the database adds up what lies wholly inside, the few that are cut are cut here.

It adds up kind by kind, in the order in which the rows are kept, so that it has nothing to sort; which row of
the report a kind belongs to is found out here. Over time it does so once for each day, week or month. What
runs has no row yet: it is made from its attempt, up to now.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

from sqlalchemy import BigInteger, ColumnElement, func, or_, select

from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.tenant import is_within
from tgpu.domain.usage import LONGEST, Cut, Usage, cut_of
from tgpu.store.sql import cluster, usage_kinds
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.sql.usage import FIELDS, TRIED, usage_from, used
from tgpu.store.sql.usage_kinds import Kind
from tgpu.store.tables import attempts, usage
from tgpu.store.tables import usage_kinds as kind_rows
from tgpu.store.usage_port import GroupBy, ReportFilter, ReportRow
from tgpu.store.usage_sums import (
    DAY_MS,
    END_OF_TIME_MS,
    Dimensions,
    Key,
    Tally,
    asked_of,
    bounds,
    ending,
    gpu_ms_after,
)

_FROM, _UNTIL = value("from_ms"), value("until_ms")
_RUN_MS = usage.c.ended_ms - usage.c.started_ms
_IS_FIRST = (usage.c.number == constant(1)) & (usage.c.task_index == constant(0))
_THOUSAND = constant(1000)
_SUMS = (
    func.count(),
    func.count().filter(_IS_FIRST),
    func.sum(usage.c.wait_ms),
    func.max(usage.c.wait_ms),
    func.sum(_RUN_MS),
    func.sum(usage.c.cpu_milli * _RUN_MS // _THOUSAND),
    func.sum(usage.c.memory_mib * _RUN_MS // _THOUSAND),
    func.sum(usage.c.gpu_milli * _RUN_MS // _THOUSAND),
    func.sum(usage.c.used_cpu_ms),
    func.sum(usage.c.peak_memory_mib * _RUN_MS // _THOUSAND),
    func.sum(usage.c.used_gpu_ms),
    func.sum(usage.c.lost_ms),
    func.sum(usage.c.gpu_milli * usage.c.lost_ms // _THOUSAND),
)
_SPAN, _SHIFT = value("span_ms", BigInteger()), value("shift_ms", BigInteger())
_IN_ONE_SPAN = (usage.c.started_ms + _SHIFT) // _SPAN == (usage.c.ended_ms + _SHIFT) // _SPAN
_WHOLE = (usage.c.started_ms >= _FROM, usage.c.ended_ms < _UNTIL)


def _of_kinds(*those: ColumnElement[bool]) -> ColumnElement[bool]:
    """By it the rows of a kind are found where they are kept, from some end on."""
    return usage.c.kind_id.in_(select(kind_rows.c.kind_id).where(*those)) & (usage.c.ended_ms >= _FROM)


COLUMNS = {
    GroupBy.USER: kind_rows.c.user,
    GroupBy.TENANT: kind_rows.c.tenant_id,
    GroupBy.POOL: kind_rows.c.pool,
    GroupBy.GPU_TYPE: kind_rows.c.gpu_type,
    GroupBy.CLASS: kind_rows.c.priority_class,
    GroupBy.CAUSE: kind_rows.c.cause,
    GroupBy.NODE: usage.c.node_id,
}
CUT = Query(
    "Whatever is in it, and not wholly in one part of it.",
    select(*FIELDS).where(
        usage.c.ended_ms >= _FROM,
        usage.c.started_ms < _UNTIL,
        or_(usage.c.started_ms < _FROM, usage.c.ended_ms >= _UNTIL, ~_IN_ONE_SPAN),
    ),
)
FIRST_AND_LAST = Query(
    "When the first began, and the last ended.",
    select(func.min(usage.c.started_ms), func.max(usage.c.ended_ms)),
)
GIVEN = Query(
    "How much of GPUs each kind was given by what is not cut.",
    select(usage.c.kind_id, func.sum(usage.c.gpu_milli * _RUN_MS // _THOUSAND))
    .where(*_WHOLE, _of_kinds())
    .group_by(usage.c.kind_id),
)
LIVE = Query(
    "What every attempt that runs was given, to whom, and since when that waited.",
    TRIED.add_columns(attempts.c.job_id, attempts.c.task_index, attempts.c.number).where(
        attempts.c.state != constant(AttemptState.ENDED),
        attempts.c.state != constant(AttemptState.LOST),
        attempts.c.started_ms.is_not(None),
    ),
)


class _Rows:
    """Which row of the report attempts of a kind, on a node, belong to; None: to none."""

    def __init__(self, tally: Tally, kinds: Mapping[int, Kind], *, with_nodes: bool) -> None:
        self._tally, self._kinds, self._with_nodes = tally, kinds, with_nodes
        self._known: dict[tuple[int, str], Key | None] = {}

    def of(self, kind_id: int, node_id: str) -> Key | None:
        place = (kind_id, node_id if self._with_nodes else "")
        if place not in self._known:
            self._known[place] = self._tally.key_of(dimensions(self._kinds[kind_id], place[1]))
        return self._known[place]


def report(session: Session, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int) -> list[ReportRow]:
    tally, kinds, spans = Tally(where, by), usage_kinds.every(session), _spans(by)
    rows = _Rows(tally, kinds, with_nodes=GroupBy.NODE in by)
    for from_ms, until_ms in stretches(session, where, by):
        _add_inside(session, tally, where, by, {"from_ms": from_ms, "until_ms": until_ms, **spans})
    from_ms, until_ms = bounds(where)
    for row in session.stream(CUT, from_ms=from_ms, until_ms=until_ms, **spans):
        kind_id, _, task_index, number, node_id, *numbers = row
        key = rows.of(kind_id, node_id)
        if key is not None:
            kind = kinds[kind_id]
            is_first = number == 1 and task_index == 0
            tally.add_cut(key, Cut._make((is_first, *numbers, kind.is_told, kind.is_gpu_told)))
    for spent in running(session, now_ms):
        tally.add(spent)
    return tally.rows()


def _add_inside(
    session: Session, tally: Tally, where: ReportFilter, by: tuple[GroupBy, ...], times: Values
) -> None:
    known = tuple(each for each in COLUMNS if each in by or each in asked_of(where))
    user, at_ms = _only_user(where), cast("int", times["from_ms"])
    whose: Values = {} if user is None else {"only_user": user}
    query = _inside(known, one_user=user is not None, by_month=GroupBy.MONTH in by)
    for row in session.rows(query, **times, **whose):
        is_told, is_gpu_told, *sums = row[len(known) :]
        key = tally.key_of(dict.fromkeys(COLUMNS, "") | dict(zip(known, row, strict=False)))
        if key is not None:
            tally.add_sums(key, at_ms, _figures(sums, is_told=bool(is_told), is_gpu_told=bool(is_gpu_told)))


@lru_cache(maxsize=128)
def _inside(known: tuple[GroupBy, ...], *, one_user: bool, by_month: bool) -> Query:
    """First kind by kind, then what is alike of the few kinds there are. Only nodes have to be sorted. A
    stretch is one span, but for a month: what is not wholly in one of its days is cut."""
    whose = (kind_rows.c.user == value("only_user"),) if one_user else ()
    whole = (*_WHOLE, _IN_ONE_SPAN) if by_month else _WHOLE
    groups = [usage.c.kind_id, usage.c.node_id] if GroupBy.NODE in known else [usage.c.kind_id]
    sums = [each.label(f"sum_{at}") for at, each in enumerate(_SUMS)]
    by_kind = select(*groups, *sums).where(*whole, _of_kinds(*whose)).group_by(*groups).subquery()
    columns = [by_kind.c.node_id if each is GroupBy.NODE else COLUMNS[each] for each in known]
    columns += [kind_rows.c.is_told, kind_rows.c.is_gpu_told]
    totals = [
        func.max(by_kind.c[each.name]) if at == LONGEST else func.sum(by_kind.c[each.name])
        for at, each in enumerate(sums)
    ]
    return Query(
        "Adds up what is not cut, by what matters.",
        select(*columns, *totals)
        .join_from(by_kind, kind_rows, kind_rows.c.kind_id == by_kind.c.kind_id)
        .group_by(*columns),
    )


def gpu_ms_since(session: Session, since_ms: Mapping[str, int], now_ms: int) -> dict[str, int]:
    kinds, live = usage_kinds.every(session), list(running(session, now_ms))
    totals = dict.fromkeys(since_ms, 0)
    for from_ms in set(since_ms.values()):  # tenants have few periods
        times: Values = {"from_ms": from_ms, "until_ms": END_OF_TIME_MS, **_spans(())}
        given = [(kinds[kind_id].tenant_id, int(gpu_ms)) for kind_id, gpu_ms in session.rows(GIVEN, **times)]
        cut = [usage_from(row, kinds) for row in session.stream(CUT, **times)]
        given += [(spent.tenant_id, gpu_ms_after(cut_of(spent), from_ms)) for spent in (*cut, *live)]
        tops = [tenant_id for tenant_id, since in since_ms.items() if since == from_ms]
        for tenant_id, gpu_ms in given:
            for top in tops:
                if is_within(tenant_id, top):
                    totals[top] += gpu_ms
    return totals


def running(session: Session, now_ms: int) -> Iterator[Usage]:
    rows = session.rows(LIVE)
    here = {node.node_id: node for node in cluster.all_nodes(session)} if rows else {}
    for *tried, job_id, task_index, number in rows:
        attempt_id = AttemptId(job_id, task_index, number)
        yield used(attempt_id, tuple(tried), here, now_ms, None)


def stretches(session: Session, where: ReportFilter, by: tuple[GroupBy, ...]) -> Iterator[tuple[int, int]]:
    """What is asked for, or each of its days, weeks or months in which there may be something."""
    from_ms, until_ms = bounds(where)
    unit = next((each for each in by if each.is_time), None)
    if unit is None:
        yield from_ms, until_ms
        return
    first_ms, last_ms = session.the_row(FIRST_AND_LAST)
    if first_ms is None:
        return
    from_ms, until_ms = max(from_ms, first_ms), min(until_ms, last_ms + 1)
    while from_ms < until_ms:
        end_ms = min(ending(unit, from_ms), until_ms)
        yield from_ms, end_ms
        from_ms = end_ms


def _spans(by: tuple[GroupBy, ...]) -> Values:
    """What is not wholly within one of these is cut. Months are not all of a length: there it is days."""
    if GroupBy.WEEK in by:
        return {"span_ms": 7 * DAY_MS, "shift_ms": 3 * DAY_MS}  # the first of January 1970 was a Thursday
    if GroupBy.DAY in by or GroupBy.MONTH in by:
        return {"span_ms": DAY_MS, "shift_ms": 0}
    return {"span_ms": 2 * END_OF_TIME_MS, "shift_ms": 0}


def _only_user(where: ReportFilter) -> str | None:
    """The only one whose rows matter, if there is one."""
    if len(where.users) == 1:
        return min(where.users)
    return None if where.seen_tenants else where.seen_by


def dimensions(kind: Kind, node_id: str) -> Dimensions:
    return {
        GroupBy.USER: kind.user,
        GroupBy.TENANT: kind.tenant_id,
        GroupBy.POOL: kind.pool,
        GroupBy.GPU_TYPE: kind.gpu_type,
        GroupBy.CLASS: kind.priority_class,
        GroupBy.NODE: node_id,
        GroupBy.CAUSE: kind.cause,
    }


def _figures(sums: Sequence[Any], *, is_told: bool, is_gpu_told: bool) -> list[int]:
    """The fields of `Figures`. A database may add up to decimals."""
    *given, used_cpu, used_memory, used_gpu, lost, lost_gpu = map(int, sums)
    cpu, memory, gpu = given[-3:]
    told = [cpu if is_told else 0, memory if is_told else 0, gpu if is_gpu_told else 0]
    return [*given, used_cpu, used_memory, used_gpu, *told, lost, lost_gpu]
