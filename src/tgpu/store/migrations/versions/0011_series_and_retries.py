"""Jobs of very many tasks, whose rows appear as they are needed; tasks that are tried again."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("born", sa.Integer()))
    op.add_column("jobs", sa.Column("followed", sa.Boolean()))
    op.add_column("jobs", sa.Column("retries", sa.Text()))
    op.add_column("jobs", sa.Column("skipped", sa.Text()))
    op.add_column("jobs", sa.Column("forget_ms", sa.BigInteger()))
    op.add_column("tasks", sa.Column("failures", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.add_column(
        "tasks", sa.Column("eligible_ms", sa.BigInteger(), nullable=False, server_default=sa.text("0"))
    )
    op.add_column("tasks", sa.Column("cancel_by", sa.Text()))
    op.add_column("tasks", sa.Column("restart_by", sa.Text()))
    given = sa.text("followed IS NOT NULL")
    op.create_index("jobs_followed", "jobs", ["status"], sqlite_where=given, postgresql_where=given)
    given = sa.text("forget_ms IS NOT NULL")
    op.create_index("jobs_to_forget", "jobs", ["ended_ms"], sqlite_where=given, postgresql_where=given)
