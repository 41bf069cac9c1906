"""What is on disk: times are milliseconds UTC, quantities exact integers, nested things JSON text."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    false,
    text,
    true,
)

from tgpu.domain.quota import Period
from tgpu.store.job_tables import LIVE_STATUSES, attempts, jobs, tasks
from tgpu.store.needs_tables import needs
from tgpu.store.table_metadata import BigKey, metadata
from tgpu.store.usage_tables import usage, usage_kinds

# Beside those below: all that there are.
__all__ = ["LIVE_STATUSES", "attempts", "jobs", "metadata", "needs", "tasks", "usage", "usage_kinds"]

# Sorted by code, as Python and SQLite do, whatever the language of the database.
_Name = Text().with_variant(Text(collation="C"), "postgresql")
_ZERO = text("0")
_EMPTY = text("''")
_MONTH = text(f"'{Period.MONTH.value}'")
_FALSE = false()
_TRUE = true()

meta = Table(
    "meta",
    metadata,
    Column("singleton", Integer, primary_key=True, autoincrement=False),
    Column("cluster_id", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("restored_ms", BigInteger),  # null again once a leader has settled what that brings
    Column("moved_to", Text),  # the database that has taken this one's place: nobody may use it any more
    Column("rearranged_seq", BigInteger),  # a number that no event has: tenants were moved or removed there
)

# One row, made by the migrations; one that takes away what older servers need says so here (`revision.py`).
compatibility = Table(
    "compatibility",
    metadata,
    Column("singleton", Integer, primary_key=True, autoincrement=False),
    Column("oldest_server", Text, nullable=False),
)

# One row, made with the table. Beside `meta`, which a commit holds: a renewal need not wait for that.
lease = Table(
    "lease",
    metadata,
    Column("singleton", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),  # void unless it is that of `meta`
    Column("server_id", Text, nullable=False),
    Column("expires_ms", BigInteger),  # by the database's clock; null once it was resigned
)

servers = Table(
    "servers",
    metadata,
    Column("server_id", _Name, primary_key=True),
    Column("url", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("config_digest", Text, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("seen_ms", BigInteger, nullable=False),  # by the database's clock
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", Text, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

# Numbers are given out by a row, not by the database's own sequences: whoever holds the row is the only one
# to write events, so the feed's order is the order of commits, on every database. Where tenants were moved or
# removed, a number is no event's.
counters = Table(
    "counters",
    metadata,
    Column("singleton", Integer, primary_key=True, autoincrement=False),
    Column("last_job_id", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("seq", BigKey, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("job_id", BigInteger, nullable=False),
    Column("task_index", Integer),
    Column("data", Text, nullable=False),
    Column("user", Text, nullable=False),
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"]),
    Index("events_by_job", "job_id", "seq"),
    Index("events_by_user", "user", "seq"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", _Name, primary_key=True),
    Column("body", Text, nullable=False),
)

join_tokens = Table(
    "join_tokens",
    metadata,
    Column("token_id", Integer, primary_key=True),
    Column("digest", Text, nullable=False, unique=True),
    Column("note", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("uses_left", BigInteger),
    Column("pool", Text),
    Column("revoked", Boolean, nullable=False),
    Column("node_name", Text),
    Column("labels", Text),  # a list, or NULL: any
    Column("serves", Text),
    Column("address", Text),
    sqlite_autoincrement=True,
)

node_keys = Table(
    "node_keys",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("key_digest", Text, nullable=False),
    Column("enrolled_ms", BigInteger, nullable=False),
    Column("token_id", Integer, nullable=False),
    Column("approved", Boolean, nullable=False, server_default=_TRUE),
    Column("joined_from", Text),
)

windows = Table(
    "windows",
    metadata,
    Column("window_id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("node_ids", Text, nullable=False),
    Column("rules", Text, nullable=False),
    Column("from_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("tenant_id", Text),
    Column("users", Text, nullable=False),
    Column("cancelled", Boolean, nullable=False),
    Column("next_seq", BigInteger, nullable=False),  # as a tenant's
    Index("windows_by_change", "next_seq"),
    sqlite_autoincrement=True,
)

tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", _Name, primary_key=True),
    Column("weight", Integer, nullable=False),
    Column("cpu_milli_limit", BigInteger),
    Column("memory_mib_limit", BigInteger),
    Column("disk_mib_limit", BigInteger),
    Column("gpu_milli_limit", BigInteger),
    Column("cpu_milli_used", BigInteger, nullable=False, server_default=_ZERO),
    Column("memory_mib_used", BigInteger, nullable=False, server_default=_ZERO),
    Column("disk_mib_used", BigInteger, nullable=False, server_default=_ZERO),
    Column("gpu_milli_used", BigInteger, nullable=False, server_default=_ZERO),
    Column("version", BigInteger, nullable=False),
    # The number of the first event after its weight or limits last changed: what the loop has yet to see.
    Column("next_seq", BigInteger, nullable=False, server_default=_ZERO),
    Column("cpu_milli_burst", BigInteger, nullable=False, server_default=_ZERO),
    Column("memory_mib_burst", BigInteger, nullable=False, server_default=_ZERO),
    Column("disk_mib_burst", BigInteger, nullable=False, server_default=_ZERO),
    Column("gpu_milli_burst", BigInteger, nullable=False, server_default=_ZERO),
    Column("running_limit", BigInteger),
    Column("waiting_limit", BigInteger),
    Column("running", BigInteger, nullable=False, server_default=_ZERO),
    Column("waiting", BigInteger, nullable=False, server_default=_ZERO),
    Column("gpu_ms_limit", BigInteger),
    Column("gpu_ms_used", BigInteger, nullable=False, server_default=_ZERO),
    Column("gpu_period", Text, nullable=False, server_default=_MONTH),
    Column("gpu_period_from_ms", BigInteger, nullable=False, server_default=_ZERO),
    Column("quota_lines", Integer, nullable=False, server_default=_ZERO),  # how many rows it has there
    Column("tier", Text),
    Column("default_class", Text),
    Column("classes", Text),
    Column("default_limit_s", BigInteger),
    Column("most_limit_s", BigInteger),
    Column("over_quota", Text),
    Column("may_burst", Boolean),
    Column("archived", Boolean, nullable=False, server_default=_FALSE),
    Column("budget_gpu_ms", BigInteger),
    Column("budget_period", Text, nullable=False, server_default=_MONTH),
    Index("tenants_by_change", "next_seq"),
)

# Limits that few tenants have: on GPUs of a model, on a named resource. What is used is kept only here, so a
# new row is made with the sum of what lives. Locked by its tenant's row.
quota_lines = Table(
    "quota_lines",
    metadata,
    Column("tenant_id", _Name, primary_key=True),
    Column("name", _Name, primary_key=True),
    Column("most", BigInteger, nullable=False),
    Column("used", BigInteger, nullable=False, server_default=_ZERO),
    Column("burst", BigInteger, nullable=False, server_default=_ZERO),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"]),
)

# Tenants that were moved, and whose ended jobs have yet to follow: all up to one, the oldest row first.
renames = Table(
    "renames",
    metadata,
    Column("rename_id", Integer, primary_key=True),
    Column("old_id", Text, nullable=False),
    Column("new_id", Text, nullable=False),
    Column("up_to_job_id", BigInteger, nullable=False),
    sqlite_autoincrement=True,
)

members = Table(
    "members",
    metadata,
    Column("user", _Name, primary_key=True),
    Column("tenant_id", _Name, primary_key=True),  # `*`: everywhere
    Column("role", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("token_id", Integer, primary_key=True),
    Column("user", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False, unique=True),
    Column("note", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("expires_ms", BigInteger),
    Column("revoked", Boolean, nullable=False),
    Column("tenant_id", Text),  # good only there and below
    Column("actions", Text, nullable=False, server_default=_EMPTY),  # good only for these
    Column("highest_class", Text),
    Column("jobs_left", BigInteger),
    Column("gpu_ms_left", BigInteger),
    Column("parent_id", Integer),  # the token it was made with, and ends with
    Index("tokens_by_parent", "parent_id"),
    sqlite_autoincrement=True,
)

# Only ever added to: the database itself refuses anything else.
audit = Table(
    "audit",
    metadata,
    Column("audit_id", Integer, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("user", Text, nullable=False),
    Column("via", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("token_id", Integer),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Index("audit_by_target", "target", "audit_id"),
    sqlite_autoincrement=True,
)

# The first estimate of when a job starts: kept until it has started, and of the latest ones some time after.
start_estimates = Table(
    "start_estimates",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("made_ms", BigInteger, nullable=False),
    Column("earliest_ms", BigInteger, nullable=False),
    Column("expected_ms", BigInteger, nullable=False),
    Column("latest_ms", BigInteger, nullable=False),
    Column("started_ms", BigInteger),
    sqlite_with_rowid=False,
)

# What jobs name and nobody is shown.
user_secrets = Table(
    "user_secrets",
    metadata,
    Column("user", _Name, primary_key=True),
    Column("name", _Name, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("user", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("body_digest", Text, nullable=False),
    Column("first_job_id", BigInteger, nullable=False),
    Column("job_count", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)
