"""Exact quotas and access: more that is counted, terms, members, narrower tokens, the audit log, secrets.

Servers of the version before do not keep the new counts: they may not use the database any more.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_ZERO = sa.text("0")
_COUNTS = (
    "cpu_milli_burst",
    "memory_mib_burst",
    "disk_mib_burst",
    "gpu_milli_burst",
    "running",
    "waiting",
    "gpu_ms_used",
    "gpu_period_from_ms",
)
_LIMITS = (
    "running_limit",
    "waiting_limit",
    "gpu_ms_limit",
    "default_limit_s",
    "most_limit_s",
    "budget_gpu_ms",
)
_FORBID_SQLITE = """
CREATE TRIGGER audit_is_never_{done} BEFORE {verb} ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END
"""


def upgrade() -> None:
    op.add_column("meta", sa.Column("rearranged_seq", sa.BigInteger(), nullable=True))
    _extend_tenants()
    op.add_column("jobs", sa.Column("token_id", sa.Integer(), nullable=True))
    op.create_index("jobs_by_tenant", "jobs", ["tenant_id", "status", "job_id"])
    op.create_index("jobs_by_end", "jobs", ["ended_ms"])
    op.add_column(
        "tasks", sa.Column("standing", sa.Text(), server_default=sa.text("'charged'"), nullable=False)
    )
    op.add_column(
        "tasks", sa.Column("reserved_gpu_ms", sa.BigInteger(), server_default=_ZERO, nullable=False)
    )
    op.add_column(
        "tasks", sa.Column("waiting_since_ms", sa.BigInteger(), server_default=_ZERO, nullable=False)
    )
    _extend_tokens()
    _create_tables()
    _forbid_changes_of_audit()
    _count()
    op.execute("UPDATE compatibility SET oldest_server = '0006'")


def _extend_tenants() -> None:
    for name in _COUNTS:
        op.add_column("tenants", sa.Column(name, sa.BigInteger(), server_default=_ZERO, nullable=False))
    for name in _LIMITS:
        op.add_column("tenants", sa.Column(name, sa.BigInteger(), nullable=True))
    op.add_column("tenants", sa.Column("quota_lines", sa.Integer(), server_default=_ZERO, nullable=False))
    for name in ("gpu_period", "budget_period"):
        op.add_column(
            "tenants", sa.Column(name, sa.Text(), server_default=sa.text("'month'"), nullable=False)
        )
    for name in ("tier", "default_class", "classes", "over_quota"):
        op.add_column("tenants", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("tenants", sa.Column("may_burst", sa.Boolean(), nullable=True))
    op.add_column("tenants", sa.Column("archived", sa.Boolean(), server_default=sa.false(), nullable=False))


def _extend_tokens() -> None:
    for name in ("tenant_id", "highest_class"):
        op.add_column("tokens", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("tokens", sa.Column("actions", sa.Text(), server_default=sa.text("''"), nullable=False))
    for name in ("jobs_left", "gpu_ms_left"):
        op.add_column("tokens", sa.Column(name, sa.BigInteger(), nullable=True))


def _create_tables() -> None:
    name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "quota_lines",
        sa.Column("tenant_id", name, nullable=False),
        sa.Column("name", name, nullable=False),
        sa.Column("most", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), server_default=_ZERO, nullable=False),
        sa.Column("burst", sa.BigInteger(), server_default=_ZERO, nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_quota_lines_tenants")),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_quota_lines")),
    )
    op.create_table(
        "renames",
        sa.Column("rename_id", sa.Integer(), nullable=False),
        sa.Column("old_id", sa.Text(), nullable=False),
        sa.Column("new_id", sa.Text(), nullable=False),
        sa.Column("up_to_job_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rename_id", name=op.f("pk_renames")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "members",
        sa.Column("user", name, nullable=False),
        sa.Column("tenant_id", name, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user", "tenant_id", name=op.f("pk_members")),
    )
    op.create_table(
        "audit",
        sa.Column("audit_id", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=True),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_audit")),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_by_target", "audit", ["target", "audit_id"])
    op.create_table(
        "user_secrets",
        sa.Column("user", name, nullable=False),
        sa.Column("name", name, nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user", "name", name=op.f("pk_user_secrets")),
    )


def _forbid_changes_of_audit() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_FORBID_SQLITE.format(done="changed", verb="UPDATE"))
        op.execute(_FORBID_SQLITE.format(done="removed", verb="DELETE"))
        return
    op.execute(
        "CREATE FUNCTION refuse_to_change_audit() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the audit log is only added to'; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_is_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION refuse_to_change_audit()"
    )


def _count() -> None:
    """What lives now: tasks that wait and tasks that have a node, of each tenant and everybody below it."""
    for count, statuses in (("waiting", "'pending', 'preempted'"), ("running", "'scheduled', 'running'")):
        op.execute(
            f"UPDATE tenants SET {count} = ("  # noqa: S608  only the words above
            "SELECT count(*) FROM tasks JOIN jobs ON jobs.job_id = tasks.job_id "
            f"WHERE tasks.status IN ({statuses}) AND (jobs.tenant_id = tenants.tenant_id "
            "OR substr(jobs.tenant_id, 1, length(tenants.tenant_id) + 1) = tenants.tenant_id || '/'))"
        )
    # By memory alone a GPU was not charged before.
    op.execute(
        sa.text(
            "UPDATE tenants SET gpu_milli_used = gpu_milli_used + 1000 * ("
            "SELECT count(*) FROM tasks JOIN jobs ON jobs.job_id = tasks.job_id "
            "WHERE tasks.status IN ('pending', 'preempted', 'scheduled', 'running') "
            """AND tasks.request LIKE '%"gpu_milli"\\:0,%' AND tasks.request LIKE '%"gpu_memory_mib"%' """
            """AND tasks.request NOT LIKE '%"gpu_memory_mib"\\:0%' """
            "AND (jobs.tenant_id = tenants.tenant_id "
            "OR substr(jobs.tenant_id, 1, length(tenants.tenant_id) + 1) = tenants.tenant_id || '/'))"
        )
    )
    op.execute(
        "UPDATE tasks SET waiting_since_ms = "
        "(SELECT submitted_ms FROM jobs WHERE jobs.job_id = tasks.job_id) "
        "WHERE status IN ('pending', 'preempted')"
    )
