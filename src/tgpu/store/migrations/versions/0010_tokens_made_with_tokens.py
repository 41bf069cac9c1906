"""Tokens that were made with a token: with which one. Those whose maker was revoked end with it."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("tokens", sa.Column("parent_id", sa.Integer()))
    op.create_index("tokens_by_parent", "tokens", ["parent_id"])
    op.execute(
        "UPDATE tokens SET parent_id = (SELECT max(audit.token_id) FROM audit"
        " WHERE audit.action = 'token.create' AND audit.target = 'token/' || CAST(tokens.token_id AS TEXT))"
    )
    orphans = sa.text(
        "UPDATE tokens SET revoked = :yes WHERE revoked = :no"
        " AND parent_id IN (SELECT maker.token_id FROM tokens AS maker WHERE maker.revoked = :yes)"
    ).bindparams(sa.bindparam("yes", True, sa.Boolean()), sa.bindparam("no", False, sa.Boolean()))
    while op.get_bind().execute(orphans).rowcount:
        pass
