"""Jobs of many tasks: how many there are, what they have in common, and the sum of what became of them."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("tasks", sa.Integer(), nullable=False, server_default=sa.text("1")))
    op.add_column("jobs", sa.Column("gang", sa.Text()))
    op.add_column("jobs", sa.Column("tally", sa.Text()))
    op.add_column("tasks", sa.Column("cause", sa.Text()))
    op.add_column("tasks", sa.Column("detail", sa.Text()))
    op.add_column("tasks", sa.Column("checkpoint_ms", sa.BigInteger()))
    # A leader of an older version would show such a job as one of its tasks stands.
    op.execute("UPDATE compatibility SET oldest_server = '0009'")
