"""Accounting: what each attempt that is over was given and used."""

import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_AT_ONCE = 1000
_KIND_TEXTS = ("user", "tenant_id", "priority_class", "pool", "gpu_type", "cause")
_NUMBERS = (
    "started_ms",
    "wait_ms",
    "cpu_milli",
    "memory_mib",
    "gpu_milli",
    "used_cpu_ms",
    "peak_memory_mib",
    "used_gpu_ms",
    "lost_ms",
)
_THROWN_AWAY = {"preempted", "superseded", "node-lost", "rebooted"}
_UNTOLD = {"node-lost", "rebooted", "supervisor-lost"}
_TRIED = """
SELECT a.job_id, a.task_index, a.number, a.node_id, a.devices, a.assigned_ms, a.started_ms, a.exit, a.state,
       t.request, j."user", j.tenant_id, j.priority_class, j.submitted_ms
FROM attempts a
JOIN tasks t ON t.job_id = a.job_id AND t.task_index = a.task_index
JOIN jobs j ON j.job_id = a.job_id
WHERE a.exit IS NOT NULL AND (a.job_id > :job OR (a.job_id = :job AND (a.task_index > :task
      OR (a.task_index = :task AND a.number > :number))))
ORDER BY a.job_id, a.task_index, a.number LIMIT :most
"""


def upgrade() -> None:
    kinds, usage = _create_tables()
    _fill(kinds, usage)
    op.execute("UPDATE compatibility SET oldest_server = '0007'")


def _create_tables() -> tuple[sa.Table, sa.Table]:
    kinds = op.create_table(
        "usage_kinds",
        sa.Column("kind_id", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _KIND_TEXTS),
        *(sa.Column(name, sa.Boolean(), nullable=False) for name in ("is_told", "is_gpu_told")),
        sa.PrimaryKeyConstraint("kind_id", name=op.f("pk_usage_kinds")),
    )
    op.create_index("usage_kinds_by_user", "usage_kinds", ["user", "tenant_id", "priority_class"])
    usage = op.create_table(
        "usage",
        sa.Column("kind_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("ended_ms", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _NUMBERS),
        sa.ForeignKeyConstraint(["kind_id"], ["usage_kinds.kind_id"], name=op.f("fk_usage_usage_kinds")),
        sa.PrimaryKeyConstraint(
            "kind_id", "ended_ms", "job_id", "task_index", "number", name=op.f("pk_usage")
        ),
        sqlite_with_rowid=False,
    )
    op.create_index("usage_by_attempt", "usage", ["job_id", "task_index", "number"], unique=True)
    op.create_index("usage_by_end", "usage", ["ended_ms"], sqlite_where=sa.text("ended_ms < 0"))
    return kinds, usage


def _fill(kinds: sa.Table, usage: sa.Table) -> None:
    """From what is remembered of attempts; those that were lost before count, too."""
    connection = op.get_bind()
    nodes = {
        node_id: json.loads(body)
        for node_id, body in connection.execute(sa.text("SELECT node_id, body FROM nodes"))
    }
    known: dict[tuple[object, ...], int] = {}
    before: tuple[int, int, int, int] | None = None
    for batch in _batches(connection):
        rows, new = [], []
        for tried in batch:
            kind, row = _row(tried, nodes, before)
            before = (tried.job_id, tried.task_index, tried.number, row["ended_ms"])
            said = tuple(kind.values())
            if said not in known:
                known[said] = len(known) + 1
                new.append({"kind_id": known[said], **kind})
            rows.append({"kind_id": known[said], **row})
        if new:
            connection.execute(sa.insert(kinds), new)
        connection.execute(sa.insert(usage), rows)


def _batches(connection: sa.Connection) -> Iterator[list[Any]]:
    job, task, number = -1, 0, 0
    while True:
        last = {"job": job, "task": task, "number": number, "most": _AT_ONCE}
        batch = list(connection.execute(sa.text(_TRIED), last))
        if not batch:
            return
        yield batch
        job, task, number = batch[-1].job_id, batch[-1].task_index, batch[-1].number


def _row(
    tried: Any,  # noqa: ANN401  a row
    nodes: dict[str, Any],
    before: tuple[int, int, int, int] | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its kind, and the row itself."""
    end, request, node = json.loads(tried.exit), json.loads(tried.request), nodes.get(tried.node_id, {})
    began = tried.started_ms
    ended_ms = max(end.get("ended_ms") or tried.assigned_ms, began or 0)
    started_ms = ended_ms if began is None else began
    waited_from = tried.submitted_ms if tried.number == 1 else tried.assigned_ms
    if before is not None and before[:3] == (tried.job_id, tried.task_index, tried.number - 1):
        waited_from = before[3]
    devices = set(json.loads(tried.devices))
    models = {
        device["model"]
        for device in node.get("capacity", {}).get("devices", ())
        if device["index"] in devices
    }
    untold = end["cause"] in _UNTOLD and not end.get("cpu_ms") and not end.get("peak_memory_mib")
    by_memory_alone = not request.get("gpu_milli") and request.get("gpu_memory_mib")
    kind = {
        "user": tried.user,
        "tenant_id": tried.tenant_id,
        "priority_class": tried.priority_class,
        "pool": node.get("pool", ""),
        "gpu_type": " + ".join(sorted(models)),
        "cause": end["cause"],
        "is_told": not untold,
        "is_gpu_told": False,
    }
    return kind, {
        "ended_ms": ended_ms,
        "job_id": tried.job_id,
        "task_index": tried.task_index,
        "number": tried.number,
        "node_id": tried.node_id,
        "started_ms": started_ms,
        "wait_ms": max(0, started_ms - waited_from),
        "cpu_milli": request.get("cpu_milli", 1000),
        "memory_mib": request.get("memory_mib", 0),
        "gpu_milli": 1000 if by_memory_alone else request.get("gpu_milli", 0),
        "used_cpu_ms": end.get("cpu_ms", 0),
        "peak_memory_mib": end.get("peak_memory_mib", 0),
        "used_gpu_ms": 0,
        "lost_ms": ended_ms - started_ms if end["cause"] in _THROWN_AWAY else 0,
    }
