"""First estimates of when jobs start, and the signature of each job's command."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("command_signature", sa.Text()))
    op.create_table(
        "start_estimates",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("made_ms", sa.BigInteger(), nullable=False),
        sa.Column("earliest_ms", sa.BigInteger(), nullable=False),
        sa.Column("expected_ms", sa.BigInteger(), nullable=False),
        sa.Column("latest_ms", sa.BigInteger(), nullable=False),
        sa.Column("started_ms", sa.BigInteger()),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_start_estimates")),
        sqlite_with_rowid=False,
    )
