"""Keys for callers over TCP."""

from dataclasses import replace

from sqlalchemy import insert, select, true, update

from tgpu.store.port import Token
from tgpu.store.sql.session import Query, Row, Session, value
from tgpu.store.tables import tokens

_GIVEN = ("user", "role", "digest", "note", "created_ms", "expires_ms", "revoked")
_FIELDS = (tokens.c.token_id, *(tokens.c[name] for name in _GIVEN))

ALL = Query("Every token, revoked ones too.", select(*_FIELDS).order_by(tokens.c.token_id))
BY_DIGEST = Query("The token with this digest.", select(*_FIELDS).where(tokens.c.digest == value("wanted")))
ADD = Query("Adds a token under the next id.", insert(tokens).returning(tokens.c.token_id), _GIVEN)
REVOKE = Query(
    "Makes a token worthless, once.",
    update(tokens)
    .values(revoked=true())
    .where(tokens.c.token_id == value("token"), tokens.c.revoked.is_(False)),
)


def every(session: Session) -> list[Token]:
    return [_token(row) for row in session.rows(ALL)]


def by_digest(session: Session, digest: str) -> Token | None:
    row = session.row(BY_DIGEST, wanted=digest)
    return None if row is None else _token(row)


def create(session: Session, token: Token) -> Token:
    (token_id,) = session.the_row(ADD, **{name: getattr(token, name) for name in _GIVEN})
    return replace(token, token_id=token_id)


def revoke(session: Session, token_id: int) -> bool:
    return session.change(REVOKE, token=token_id) > 0


def _token(row: Row) -> Token:
    token_id, user, role, digest, note, created_ms, expires_ms, revoked = row
    return Token(token_id, user, role, digest, note, created_ms, expires_ms, bool(revoked))
