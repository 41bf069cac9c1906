"""Which servers may use the database, so that two versions can run at the same time."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    compatibility = op.create_table(
        "compatibility",
        sa.Column("singleton", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("oldest_server", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_compatibility")),
    )
    op.bulk_insert(compatibility, [{"singleton": 1, "oldest_server": "0003"}])
