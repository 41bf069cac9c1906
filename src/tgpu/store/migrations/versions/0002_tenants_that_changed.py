"""When each tenant last changed, among the events."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column(
        "tenants", sa.Column("next_seq", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    op.create_index("tenants_by_change", "tenants", ["next_seq"], unique=False)
