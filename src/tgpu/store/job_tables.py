"""Jobs, their tasks and attempts, as they are on disk."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    false,
    literal,
    text,
)

from tgpu.domain.lifecycle import FINAL, AttemptState, Status
from tgpu.domain.quota import Standing
from tgpu.store.table_metadata import BigKey, metadata

_ZERO = text("0")
_ONE = text("1")
_EMPTY = text("''")
_NO_DEVICES = text("'[]'")
_CHARGED = text(f"'{Standing.CHARGED.value}'")
_FALSE = false()
_is_followed = text("followed IS NOT NULL")
_is_forgotten = text("forget_ms IS NOT NULL")

LIVE_STATUSES = tuple(status for status in Status if status not in FINAL)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", BigKey, primary_key=True, autoincrement=False),
    Column("user", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("priority_class", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("time_limit_s", BigInteger),
    Column("max_wait_s", BigInteger),
    Column("requeue", Boolean, nullable=False),
    Column("grace_s", BigInteger),
    Column("submitted_ms", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("cause", Text),
    Column("detail", Text, nullable=False, server_default=_EMPTY),
    Column("exit_code", Integer),
    Column("node_id", Text),
    Column("devices", Text, nullable=False, server_default=_NO_DEVICES),
    Column("attempts", Integer, nullable=False, server_default=_ZERO),
    Column("started_ms", BigInteger),
    Column("ended_ms", BigInteger),
    Column("cancel_by", Text),
    Column("spec", Text, nullable=False),  # behind what is listed: a scan for that need not pass it
    Column("token_id", Integer),  # the token it was submitted with
    Column("cancel_now", Boolean, nullable=False, server_default=_FALSE),  # without its grace
    Column("tasks", Integer, nullable=False, server_default=_ONE),  # how many it has
    Column("gang", Text),  # what they have in common, if they start together
    Column("tally", Text),  # of several tasks: how many are in each status, and how those ended that are over
    Column("born", Integer),  # of a series: how many of its tasks have rows; null: all
    Column("followed", Boolean),  # true: whoever schedules keeps a book of it; else null
    Column("retries", Text),  # what becomes of tasks that fail
    Column("skipped", Text),  # of a series: which of its tasks are cancelled before they have rows
    Column("forget_ms", BigInteger),  # how long after its end it is to be remembered
    Column("timing", Text),  # when it may start and must be over, what holds it back; null of most
    Column("changed_seq", BigInteger),  # the event by which it was last held or edited
    Column("command", Text),  # the beginning of the first group's command, to search for
    Column("gpu_milli", BigInteger),  # what all tasks together ask for, to sort by
    Column("command_signature", Text),  # the same for jobs with similar commands
    Index("jobs_by_status", "status", "job_id"),
    Index("jobs_by_user", "user", "status", "job_id"),
    Index("jobs_by_tenant", "tenant_id", "status", "job_id"),
    Index("jobs_by_end", "ended_ms"),
    Index("jobs_by_text", "job_id", "name", "user", "tenant_id", "command"),  # nothing that changes often
    Index("jobs_followed", "status", sqlite_where=_is_followed, postgresql_where=_is_followed),
    Index("jobs_to_forget", "ended_ms", sqlite_where=_is_forgotten, postgresql_where=_is_forgotten),
)

tasks = Table(
    "tasks",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task_index", Integer, primary_key=True, autoincrement=False),
    Column("group_index", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=_ZERO),
    Column("request", Text, nullable=False),
    Column("standing", Text, nullable=False, server_default=_CHARGED),  # with its tenant's quota
    Column("reserved_gpu_ms", BigInteger, nullable=False, server_default=_ZERO),  # of its tenant's GPU-hours
    Column("waiting_since_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("cause", Text),  # why it was closed without having run
    Column("detail", Text),
    Column("checkpoint_ms", BigInteger),  # when it last saved its work, if it said so
    Column("failures", Integer, nullable=False, server_default=_ZERO),  # of its attempts, those that count
    Column("eligible_ms", BigInteger, nullable=False, server_default=_ZERO),  # it is not to start before
    Column("cancel_by", Text),  # who asked for this one to be cancelled
    Column("restart_by", Text),  # who asked for it to start anew, until it has left its attempt
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"]),
    sqlite_with_rowid=False,
)
_task_is_live = tasks.c.status.in_([literal(status.value, literal_execute=True) for status in LIVE_STATUSES])
Index(
    "tasks_live",
    tasks.c.job_id,
    tasks.c.task_index,
    sqlite_where=_task_is_live,
    postgresql_where=_task_is_live,
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("task_index", Integer, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("devices", Text, nullable=False),
    Column("assigned_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    Column("stop_cause", Text),
    Column("stop_by", Text),
    Column("exit", Text),
    ForeignKeyConstraint(["job_id", "task_index"], ["tasks.job_id", "tasks.task_index"]),
    sqlite_with_rowid=False,
)
_attempt_is_live = attempts.c.state != literal(AttemptState.ENDED.value, literal_execute=True)
Index(
    "attempts_live",
    attempts.c.job_id,
    attempts.c.task_index,
    attempts.c.number,
    sqlite_where=_attempt_is_live,
    postgresql_where=_attempt_is_live,
)
