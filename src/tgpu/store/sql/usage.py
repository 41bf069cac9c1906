"""What attempts were given and used: a row for each that is over, written by the commit that ends it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from sqlalchemy import delete, insert, select

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.usage import Owner, Times, Usage, models_of, usage_of
from tgpu.store.left import Left, tells_less, thrown_away_ms
from tgpu.store.sql import codec, usage_kinds
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.sql.stage import of_attempt
from tgpu.store.sql.usage_kinds import Kind
from tgpu.store.tables import attempts, jobs, nodes, tasks, usage
from tgpu.store.tables import usage_kinds as kind_rows

# A node is described anew when it comes, and ends attempts all the time.
_NODES_KEPT = 2048

_before, _this = usage.alias("before"), usage.alias("this")
FIELDS = (
    usage.c.kind_id,
    usage.c.job_id,
    usage.c.task_index,
    usage.c.number,
    usage.c.node_id,
    usage.c.started_ms,
    usage.c.ended_ms,
    usage.c.wait_ms,
    usage.c.cpu_milli,
    usage.c.memory_mib,
    usage.c.gpu_milli,
    usage.c.used_cpu_ms,
    usage.c.peak_memory_mib,
    usage.c.used_gpu_ms,
    usage.c.lost_ms,
)
TRIED = (
    select(
        attempts.c.node_id,
        attempts.c.devices,
        attempts.c.assigned_ms,
        attempts.c.started_ms,
        tasks.c.request,
        jobs.c.user,
        jobs.c.tenant_id,
        jobs.c.priority_class,
        jobs.c.submitted_ms,
        _before.c.ended_ms,
    )
    .select_from(attempts)
    .join(tasks, (tasks.c.job_id == attempts.c.job_id) & (tasks.c.task_index == attempts.c.task_index))
    .join(jobs, jobs.c.job_id == attempts.c.job_id)
    .outerjoin(
        _before,
        (_before.c.job_id == attempts.c.job_id)
        & (_before.c.task_index == attempts.c.task_index)
        & (_before.c.number == attempts.c.number - constant(1)),
    )
)
_OF_ATTEMPT = (
    usage.c.job_id == value("job"),
    usage.c.task_index == value("task"),
    usage.c.number == value("which"),
)
LEFT = Query(
    "What an attempt was given, to whom, since when that waited, and whether it has a row already.",
    TRIED.add_columns(_this.c.ended_ms)
    .outerjoin(
        _this,
        (_this.c.job_id == attempts.c.job_id)
        & (_this.c.task_index == attempts.c.task_index)
        & (_this.c.number == attempts.c.number),
    )
    .where(
        attempts.c.job_id == value("job"),
        attempts.c.task_index == value("task"),
        attempts.c.number == value("which"),
    ),
)
NODE = Query("One node.", select(nodes.c.body).where(nodes.c.node_id == value("node")))
ADD = Query("Adds what an attempt was given and used.", insert(usage))
REMOVE = Query("Removes the row of an attempt.", delete(usage).where(*_OF_ATTEMPT))
OF_JOB = Query(
    "What each attempt of a job was given and used.",
    select(*FIELDS, *usage_kinds.FIELDS)
    .join_from(usage, kind_rows, kind_rows.c.kind_id == usage.c.kind_id)
    .where(usage.c.job_id == value("job"))
    .order_by(usage.c.task_index, usage.c.number)
    .limit(value("most"))
    .offset(constant(0)),
)


def record(session: Session, left: Sequence[Left], at_ms: int, known: Mapping[AttemptId, Row]) -> None:
    """Of attempts that hold nothing any more: after everything else is written of them. `known`: of some that
    have no row here yet, what `TRIED` would tell."""
    if not left:
        return
    last = {change.attempt_id: change for change in left}
    found = {attempt_id: (*known[attempt_id], None) for attempt_id in last if attempt_id in known}
    if unknown := [attempt_id for attempt_id in last if attempt_id not in known]:
        found |= _read(session, unknown)
    here = _nodes(session, {row[0] for row in found.values()})
    over: list[Usage] = []
    for change in last.values():
        *tried, was_ended_ms = found[change.attempt_id]
        if was_ended_ms is not None:
            if tells_less(change):
                continue
            forget(session, [change.attempt_id])
        end = change.exit
        spent = used(change.attempt_id, tuple(tried), here, end.ended_ms or at_ms, end)
        over.append(replace(spent, lost_ms=thrown_away_ms(change, spent)))
    if over:
        kinds = [usage_kinds.kind_of(spent) for spent in over]
        numbers = usage_kinds.numbers(session, kinds)
        session.change_many(
            ADD, [_row(numbers[kind], spent) for kind, spent in zip(kinds, over, strict=True)]
        )


def _read(session: Session, attempt_ids: Sequence[AttemptId]) -> dict[AttemptId, Row]:
    rows = session.row_each(LEFT, [of_attempt(attempt_id) for attempt_id in attempt_ids])
    found: dict[AttemptId, Row] = {}
    for attempt_id, row in zip(attempt_ids, rows, strict=True):
        assert row is not None, "whoever ended it has seen it"
        found[attempt_id] = row
    return found


def forget(session: Session, attempt_ids: Iterable[AttemptId]) -> None:
    """They run again, or something better is known of them."""
    for attempt_id in attempt_ids:
        session.change(REMOVE, **of_attempt(attempt_id))


def of_job(session: Session, job_id: int, most: int) -> list[Usage]:
    found: list[Usage] = []
    for row in session.rows(OF_JOB, job=job_id, most=most):
        kind = usage_kinds.kind_from(row[len(FIELDS) :])
        found.append(usage_from(row[: len(FIELDS)], {row[0]: kind}))
    return found


def used(
    attempt_id: AttemptId, tried: Row, here: Mapping[str, Node], ended_ms: int, end: Exit | None
) -> Usage:
    """By a row of `TRIED`, up to its end or to now."""
    node_id, devices, assigned_ms, started_ms, request, user, tenant_id, class_, submitted_ms, before = tried
    # The one before may have returned: then it is not over, and when this one began to wait is unknown.
    again_since_ms = assigned_ms if before is None else before
    waiting_since_ms = submitted_ms if attempt_id.number == 1 else again_since_ms
    node = here.get(node_id)
    place = (node_id, "" if node is None else node.pool, models_of(node, codec.devices_from(devices)))
    owner = Owner(user, tenant_id, PriorityClass(class_), codec.request_from(request))
    return usage_of(attempt_id, owner, place, Times(waiting_since_ms, started_ms, ended_ms), end)


def usage_from(row: Row, kinds: Mapping[int, Kind]) -> Usage:
    """By a row of `FIELDS`."""
    kind_id, job_id, task_index, number, node_id, started_ms, ended_ms, wait_ms, *rest = row
    cpu_milli, memory_mib, gpu_milli, used_cpu_ms, peak_memory_mib, used_gpu_ms, lost_ms = rest
    kind = kinds[kind_id]
    return Usage(
        AttemptId(job_id, task_index, number),
        kind.user,
        kind.tenant_id,
        PriorityClass(kind.priority_class),
        node_id,
        kind.pool,
        kind.gpu_type,
        started_ms,
        ended_ms,
        wait_ms,
        cpu_milli,
        memory_mib,
        gpu_milli,
        used_cpu_ms if kind.is_told else None,
        peak_memory_mib if kind.is_told else None,
        used_gpu_ms if kind.is_gpu_told else None,
        Cause(kind.cause),
        lost_ms,
    )


@lru_cache(maxsize=_NODES_KEPT)
def _node_from(text: str) -> Node:
    return codec.node_from(text)


def _nodes(session: Session, node_ids: set[str]) -> dict[str, Node]:
    names = sorted(node_ids)
    bodies = session.row_each(NODE, [{"node": node_id} for node_id in names])
    return {
        node_id: _node_from(row[0]) for node_id, row in zip(names, bodies, strict=True) if row is not None
    }


def _row(kind_id: int, spent: Usage) -> Values:
    job_id, task_index, number = spent.attempt_id
    return {
        "kind_id": kind_id,
        "ended_ms": spent.ended_ms,
        "job_id": job_id,
        "task_index": task_index,
        "number": number,
        "node_id": spent.node_id,
        "started_ms": spent.started_ms,
        "wait_ms": spent.wait_ms,
        "cpu_milli": spent.cpu_milli,
        "memory_mib": spent.memory_mib,
        "gpu_milli": spent.gpu_milli,
        "used_cpu_ms": spent.used_cpu_ms or 0,
        "peak_memory_mib": spent.peak_memory_mib or 0,
        "used_gpu_ms": spent.used_gpu_ms or 0,
        "lost_ms": spent.lost_ms,
    }
