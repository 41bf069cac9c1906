"""Whether the store was put back from a copy, and whether another one has taken its place."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("meta", sa.Column("restored_ms", sa.BigInteger(), nullable=True))
    op.add_column("meta", sa.Column("moved_to", sa.Text(), nullable=True))
