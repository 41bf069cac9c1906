"""Whether a job that is to be cancelled is killed without its grace."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("cancel_now", sa.Boolean(), nullable=False, server_default=sa.false()))
