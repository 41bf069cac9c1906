"""Limits of join tokens, and nodes that wait for an administrator's approval."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    for name in ("node_name", "labels", "serves", "address"):
        op.add_column("join_tokens", sa.Column(name, sa.Text()))
    op.add_column("node_keys", sa.Column("approved", sa.Boolean(), server_default=sa.true(), nullable=False))
    op.add_column("node_keys", sa.Column("joined_from", sa.Text()))
    # A server of an older version would let in nodes that wait for approval, and believe what they claim.
    op.execute("UPDATE compatibility SET oldest_server = '0013'")
