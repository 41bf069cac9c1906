"""Timeline queries: attempts of a window by node and device, or their sums per node.

Finished attempts are read from their accounting rows, which are kept in the order of their ends; attempts
that still hold their devices from the partial index of live attempts.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from sqlalchemy import BigInteger, ColumnElement, Text, and_, func, not_, or_, select

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import AttemptState, Cause
from tgpu.store.sql import codec, usage_kinds
from tgpu.store.sql.job_conditions import SEEN, is_in, seen_values
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.sql.usage_kinds import Kind
from tgpu.store.tables import attempts, jobs, tasks, usage
from tgpu.store.tables import usage_kinds as kind_rows
from tgpu.store.timeline_port import Load, Occupation, Occupations, TimelineFilter

_FROM, _UNTIL = value("from_ms", BigInteger()), value("until_ms", BigInteger())
_WIDTH = value("width_ms", BigInteger())
_SEEN_TEXT = value("seen", Text())
_SEEN_KIND = or_(
    _SEEN_TEXT.is_(None),
    kind_rows.c.user == value("seen_user", Text()),
    is_in(kind_rows.c.tenant_id, "seen"),
)
_KINDS = usage.c.kind_id.in_(select(kind_rows.c.kind_id).where(_SEEN_KIND))
"""By the first column of the primary key, so that SQLite reads only the ends in the window."""
_THOUSAND = constant(1000)
_ALL = 1_000_000_000
_RUN_MS = usage.c.ended_ms - usage.c.started_ms
_BIN = (usage.c.started_ms - _FROM) // _WIDTH
_IN_ONE_BIN = and_(
    usage.c.started_ms >= _FROM,
    usage.c.ended_ms < _UNTIL,
    (usage.c.ended_ms - _FROM) // _WIDTH == _BIN,
)
_ENDED_IN_IT = and_(usage.c.ended_ms >= _FROM, usage.c.ended_ms < _UNTIL)
_ENDED_LATER = and_(usage.c.ended_ms >= _UNTIL, usage.c.started_ms < _UNTIL)
_IS_LIVE = and_(
    attempts.c.state != constant(AttemptState.ENDED), attempts.c.state != constant(AttemptState.LOST)
)


def occupations(session: Session, where: TimelineFilter, most: int, bins: int, now_ms: int) -> Occupations:
    names = _padded(where.node_ids)
    values: Values = {
        "from_ms": where.from_ms,
        "until_ms": where.until_ms,
        **seen_values(where.seen),
        **{f"node_{at}": name for at, name in enumerate(names)},
    }
    live = [_live_from(row) for row in session.rows(_live(len(names)), most=most + 1, **values)]
    kinds = usage_kinds.every(session)
    left = most - len(live)
    for ended_in_it in (True, False):
        if left >= 0:
            (count,) = session.the_row(_count(len(names), ended_in_it=ended_in_it), most=left + 1, **values)
            left -= count
    if left >= 0:
        found = [
            row
            for ended_in_it in (True, False)
            for row in session.rows(_finished(len(names), ended_in_it=ended_in_it), most=most, **values)
        ]
        return Occupations([*(_finished_from(row, kinds) for row in found), *live])
    load = Load(where, bins)
    _add_finished(session, load, len(names), values)
    if len(live) <= most:
        return Occupations(live, load.by_node, is_summed=True)
    for row in session.stream(_live(len(names)), most=_ALL, **values):
        one = _live_from(row)
        load.add(one.node_id, one.started_ms, now_ms, one.gpu_milli, one.cpu_milli)
    return Occupations((), load.by_node, is_summed=True)


def _padded(node_ids: Sequence[str] | None) -> list[str]:
    """To a power of two, so that few statements serve any number of nodes; empty: any node."""
    if node_ids is None:
        return []
    names = list(node_ids) or [""]  # no node has this name
    while len(names) & (len(names) - 1):
        names.append(names[-1])
    return names


def _on(column: ColumnElement[str], nodes: int) -> tuple[ColumnElement[bool], ...]:
    return (column.in_([value(f"node_{at}", Text()) for at in range(nodes)]),) if nodes else ()


@lru_cache(maxsize=64)
def _live(nodes: int) -> Query:
    return Query(
        "Attempts that hold their devices.",
        select(
            attempts.c.job_id,
            attempts.c.task_index,
            attempts.c.number,
            attempts.c.node_id,
            attempts.c.devices,
            attempts.c.assigned_ms,
            attempts.c.started_ms,
            attempts.c.stop_cause,
            tasks.c.request,
            jobs.c.user,
            jobs.c.tenant_id,
            jobs.c.name,
            jobs.c.time_limit_s,
        )
        .select_from(attempts)
        .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
        .join(jobs, jobs.c.job_id == attempts.c.job_id)
        .where(
            _IS_LIVE,
            attempts.c.assigned_ms < _UNTIL,
            or_(_SEEN_TEXT.is_(None), SEEN),
            *_on(attempts.c.node_id, nodes),
        )
        .limit(value("most"))
        .offset(constant(0)),
    )


@lru_cache(maxsize=64)
def _count(nodes: int, *, ended_in_it: bool) -> Query:
    when = _ENDED_IN_IT if ended_in_it else _ENDED_LATER
    found = (
        select(usage.c.job_id)
        .where(_KINDS, when, *_on(usage.c.node_id, nodes))
        .limit(value("most"))
        .offset(constant(0))
        .subquery()
    )
    return Query(
        "How many finished attempts there are, up to some number.", select(func.count(found.c.job_id))
    )


@lru_cache(maxsize=64)
def _finished(nodes: int, *, ended_in_it: bool) -> Query:
    when = _ENDED_IN_IT if ended_in_it else _ENDED_LATER
    found = (
        select(
            usage.c.kind_id,
            usage.c.job_id,
            usage.c.task_index,
            usage.c.number,
            usage.c.node_id,
            usage.c.started_ms,
            usage.c.ended_ms,
            usage.c.gpu_milli,
            usage.c.cpu_milli,
        )
        .where(_KINDS, when, *_on(usage.c.node_id, nodes))
        .limit(value("most"))
        .offset(constant(0))
        .subquery()
    )
    return Query(
        "Attempts that held devices in a window and hold them no more.",
        select(found, attempts.c.devices, attempts.c.exit, jobs.c.name)
        .select_from(found)
        .join(
            attempts,
            (attempts.c.job_id == found.c.job_id)
            & (attempts.c.task_index == found.c.task_index)
            & (attempts.c.number == found.c.number),
        )
        .join(jobs, jobs.c.job_id == found.c.job_id),
    )


@lru_cache(maxsize=64)
def _sums(nodes: int) -> Query:
    return Query(
        "Sums per node and bin of attempts that began and ended in the same bin.",
        select(
            usage.c.node_id,
            _BIN.label("bin"),
            func.count(),
            func.sum(usage.c.gpu_milli * _RUN_MS // _THOUSAND),
            func.sum(usage.c.cpu_milli * _RUN_MS // _THOUSAND),
        )
        .where(_KINDS, _ENDED_IN_IT, _IN_ONE_BIN, *_on(usage.c.node_id, nodes))
        .group_by(usage.c.node_id, _BIN),
    )


@lru_cache(maxsize=64)
def _cut(nodes: int, *, ended_in_it: bool) -> Query:
    when = and_(_ENDED_IN_IT, not_(_IN_ONE_BIN)) if ended_in_it else _ENDED_LATER
    return Query(
        "Attempts in more than one bin.",
        select(
            usage.c.node_id,
            usage.c.started_ms,
            usage.c.ended_ms,
            usage.c.gpu_milli,
            usage.c.cpu_milli,
        ).where(_KINDS, when, *_on(usage.c.node_id, nodes)),
    )


def _add_finished(session: Session, load: Load, nodes: int, values: Values) -> None:
    values = {**values, "width_ms": load.width_ms}
    for node_id, at, count, gpu_ms, cpu_ms in session.rows(_sums(nodes), **values):
        load.add_sum(node_id, int(at), int(count), int(gpu_ms), int(cpu_ms))
    for row in _streams(session, nodes, values):
        load.add(*row)


def _streams(session: Session, nodes: int, values: Values) -> Iterator[tuple[str, int, int, int, int]]:
    yield from session.stream(_cut(nodes, ended_in_it=True), **values)
    yield from session.stream(_cut(nodes, ended_in_it=False), **values)


def _live_from(row: Row) -> Occupation:
    job_id, task_index, number, node_id, devices, assigned_ms, started_ms, stop_cause, *rest = row
    asked, user, tenant_id, name, time_limit_s = rest
    request = codec.request_from(asked)
    return Occupation(
        AttemptId(job_id, task_index, number),
        node_id,
        codec.devices_from(devices),
        user,
        tenant_id,
        name,
        charged_gpu_milli(request),
        request.cpu_milli,
        assigned_ms if started_ms is None else started_ms,
        cause=None if stop_cause is None else Cause(stop_cause),
        is_starting=started_ms is None,
        time_limit_s=time_limit_s,
    )


def _finished_from(row: Row, kinds: dict[int, Kind]) -> Occupation:
    kind_id, job_id, task_index, number, node_id, started_ms, ended_ms, gpu_milli, cpu_milli, *rest = row
    devices, end, name = rest
    kind = kinds[kind_id]
    return Occupation(
        AttemptId(job_id, task_index, number),
        node_id,
        codec.devices_from(devices),
        kind.user,
        kind.tenant_id,
        name,
        gpu_milli,
        cpu_milli,
        started_ms,
        ended_ms,
        Cause(kind.cause),
        has_failed=end is not None and bool(codec.exit_from(end).exit_code),
    )
