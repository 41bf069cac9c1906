"""Who leads, which servers and nodes belong, what is kept for whom, and the secrets that servers share."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_Name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    lease = op.create_table(
        "lease",
        sa.Column("singleton", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("server_id", sa.Text(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("singleton", name=op.f("pk_lease")),
    )
    op.bulk_insert(lease, [{"singleton": 1, "epoch": 0, "server_id": "", "expires_ms": None}])
    op.create_table(
        "servers",
        sa.Column("server_id", _Name, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("config_digest", sa.Text(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("server_id", name=op.f("pk_servers")),
    )
    op.create_table(
        "secrets",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_secrets")),
    )
    _enrolment()
    op.create_table(
        "windows",
        sa.Column("window_id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node_ids", sa.Text(), nullable=False),
        sa.Column("rules", sa.Text(), nullable=False),
        sa.Column("from_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=True),
        sa.Column("users", sa.Text(), nullable=False),
        sa.Column("cancelled", sa.Boolean(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("window_id", name=op.f("pk_windows")),
        sqlite_autoincrement=True,
    )
    op.create_index("windows_by_change", "windows", ["next_seq"], unique=False)


def _enrolment() -> None:
    op.create_table(
        "join_tokens",
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("uses_left", sa.BigInteger(), nullable=True),
        sa.Column("pool", sa.Text(), nullable=True),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_join_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_join_tokens_digest")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "node_keys",
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("key_digest", sa.Text(), nullable=False),
        sa.Column("enrolled_ms", sa.BigInteger(), nullable=False),
        sa.Column("token_id", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("node_id", name=op.f("pk_node_keys")),
    )
