"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "counters",
        sa.Column("singleton", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_job_id", sa.BigInteger(), nullable=False),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_counters")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("body_digest", sa.Text(), nullable=False),
        sa.Column("first_job_id", sa.BigInteger(), nullable=False),
        sa.Column("job_count", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "jobs",
        sa.Column(
            "job_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("priority_class", sa.Text(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("time_limit_s", sa.BigInteger(), nullable=True),
        sa.Column("max_wait_s", sa.BigInteger(), nullable=True),
        sa.Column("requeue", sa.Boolean(), nullable=False),
        sa.Column("grace_s", sa.BigInteger(), nullable=True),
        sa.Column("submitted_ms", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("node_id", sa.Text(), nullable=True),
        sa.Column("devices", sa.Text(), server_default=sa.text("'[]'"), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("ended_ms", sa.BigInteger(), nullable=True),
        sa.Column("cancel_by", sa.Text(), nullable=True),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_jobs")),
    )
    op.create_index("jobs_by_status", "jobs", ["status", "job_id"], unique=False)
    op.create_index("jobs_by_user", "jobs", ["user", "status", "job_id"], unique=False)
    op.create_table(
        "meta",
        sa.Column("singleton", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cluster_id", sa.Text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_meta")),
    )
    op.create_table(
        "nodes",
        sa.Column("node_id", _Name, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_nodes")),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant_id", _Name, nullable=False),
        sa.Column("weight", sa.Integer(), nullable=False),
        sa.Column("cpu_milli_limit", sa.BigInteger(), nullable=True),
        sa.Column("memory_mib_limit", sa.BigInteger(), nullable=True),
        sa.Column("disk_mib_limit", sa.BigInteger(), nullable=True),
        sa.Column("gpu_milli_limit", sa.BigInteger(), nullable=True),
        sa.Column("cpu_milli_used", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("memory_mib_used", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("disk_mib_used", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("gpu_milli_used", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "events",
        sa.Column(
            "seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False
        ),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("task_index", sa.Integer(), nullable=True),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_events_jobs")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
    )
    op.create_index("events_by_job", "events", ["job_id", "seq"], unique=False)
    op.create_index("events_by_user", "events", ["user", "seq"], unique=False)
    op.create_table(
        "tasks",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("group_index", sa.Integer(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_tasks_jobs")),
        sa.PrimaryKeyConstraint("job_id", "task_index", name=op.f("pk_tasks")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "tasks_live",
        "tasks",
        ["job_id", "task_index"],
        unique=False,
        sqlite_where=sa.text("status IN ('pending', 'scheduled', 'running', 'preempted')"),
        postgresql_where=sa.text("status IN ('pending', 'scheduled', 'running', 'preempted')"),
    )
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("task_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("devices", sa.Text(), nullable=False),
        sa.Column("assigned_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("stop_cause", sa.Text(), nullable=True),
        sa.Column("stop_by", sa.Text(), nullable=True),
        sa.Column("exit", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id", "task_index"], ["tasks.job_id", "tasks.task_index"], name=op.f("fk_attempts_tasks")
        ),
        sa.PrimaryKeyConstraint("job_id", "task_index", "number", name=op.f("pk_attempts")),
        sqlite_with_rowid=False,
    )
    op.create_index(
        "attempts_live",
        "attempts",
        ["job_id", "task_index", "number"],
        unique=False,
        sqlite_where=sa.text("state != 'ended'"),
        postgresql_where=sa.text("state != 'ended'"),
    )
