"""Allocation over time, from the rows of attempts that are over and from the attempts that hold something."""

from functools import lru_cache

from sqlalchemy import BigInteger, ColumnElement, case, func, select

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.utilization import AllocationSteps
from tgpu.store.allocation import MILLIONTHS, AllocationSum
from tgpu.store.sql import codec
from tgpu.store.sql.session import Query, Session, Values, constant, value
from tgpu.store.tables import attempts, tasks, usage, usage_kinds

_FROM, _UNTIL = value("from_ms", BigInteger()), value("until_ms", BigInteger())
_STEP = value("step_ms", BigInteger())
_AMOUNTS = (usage.c.cpu_milli, usage.c.memory_mib, usage.c.gpu_milli)


def _step(at_ms: ColumnElement[int]) -> ColumnElement[int]:
    return (at_ms - _FROM) // _STEP


def _part(at_ms: ColumnElement[int]) -> ColumnElement[int]:
    """Of its step, what lies before it, in millionths."""
    return (at_ms - _FROM) % _STEP * constant(MILLIONTHS) // _STEP


def _ended(at_ms: ColumnElement[int], *, one_node: bool) -> Query:
    """Kind by kind, in the order in which rows are kept: there a stretch of time is found at once."""
    sums = [func.sum(amount) for amount in _AMOUNTS]
    late = [func.sum(amount * _part(at_ms)) for amount in _AMOUNTS]
    where = [
        usage.c.kind_id.in_(select(usage_kinds.c.kind_id)),
        usage.c.ended_ms >= _FROM,
        usage.c.started_ms < _UNTIL,
        *([usage.c.node_id == value("node")] if one_node else []),
    ]
    return Query(
        "What attempts that are over began or ended to hold, by step.",
        select(_step(at_ms), *sums, *late).where(*where).group_by(_step(at_ms)),
    )


def _live(*, one_node: bool) -> Query:
    begin = _begin(attempts.c.started_ms)
    return Query(
        "Attempts that hold something, by the step in which they began and by what they asked for.",
        select(_step(begin), tasks.c.request, func.count(), func.sum(_part(begin)))
        .select_from(attempts)
        .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
        .where(
            attempts.c.state != constant(AttemptState.ENDED),
            attempts.c.state != constant(AttemptState.LOST),
            attempts.c.started_ms.is_not(None),
            attempts.c.started_ms < _UNTIL,
            *([attempts.c.node_id == value("node")] if one_node else []),
        )
        .group_by(_step(begin), tasks.c.request),
    )


def _begin(at_ms: ColumnElement[int]) -> ColumnElement[int]:
    return case((at_ms < _FROM, _FROM), else_=at_ms)


_END = case((usage.c.ended_ms > _UNTIL, _UNTIL), else_=usage.c.ended_ms)
STARTS, STARTS_ON = (_ended(_begin(usage.c.started_ms), one_node=each) for each in (False, True))
ENDS, ENDS_ON = (_ended(_END, one_node=each) for each in (False, True))
LIVE, LIVE_ON = (_live(one_node=each) for each in (False, True))


def allocation(
    session: Session, from_ms: int, until_ms: int, step_ms: int, node_id: str | None
) -> AllocationSteps:
    found = AllocationSum(from_ms, until_ms, step_ms)
    values: Values = {"from_ms": from_ms, "until_ms": until_ms, "step_ms": step_ms}
    queries = STARTS, ENDS, LIVE
    if node_id is not None:
        values["node"], queries = node_id, (STARTS_ON, ENDS_ON, LIVE_ON)
    for sign, query in ((1, queries[0]), (-1, queries[1])):
        for step, *sums in session.rows(query, **values):
            found.add(sign, int(step), sums[:3], sums[3:])
    for step, request, count, late in session.rows(queries[2], **values):
        amounts = _amounts(request)
        found.add(1, int(step), [count * each for each in amounts], [int(late) * each for each in amounts])
    return found.averages()


@lru_cache(maxsize=4096)
def _amounts(text: str) -> tuple[int, int, int]:
    request = codec.request_from(text)
    return request.cpu_milli, request.memory_mib, charged_gpu_milli(request)
