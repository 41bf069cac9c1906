"""Jobs that wait for other jobs, for a moment, or until somebody releases them."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("timing", sa.Text()))
    op.add_column("jobs", sa.Column("changed_seq", sa.BigInteger()))
    op.create_table(
        "needs",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("on_job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name=op.f("fk_needs_jobs")),
        sa.PrimaryKeyConstraint("job_id", "on_job_id", "kind", name=op.f("pk_needs")),
        sqlite_with_rowid=False,
    )
    op.create_index("needs_by_other", "needs", ["on_job_id", "job_id"])
    # A leader of an older version would start what is held, or waits for others.
    op.execute("UPDATE compatibility SET oldest_server = '0012'")
