"""Who may be a node: the tokens by which nodes join, and the key that each of them has since."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import BigInteger, delete, false, func, insert, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert  # SQLite spells it the same way

from tgpu.domain.lifecycle import AttemptState
from tgpu.store.cluster_port import (
    Enrolled,
    JoinToken,
    NodeInUseError,
)
from tgpu.store.join_rules import refusal
from tgpu.store.sql import cluster
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import attempts, join_tokens, node_keys, nodes

_GIVEN = ("digest", "note", "created_by", "created_ms", "expires_ms", "uses_left", "pool", "revoked")
_FIELDS = (join_tokens.c.token_id, *(join_tokens.c[name] for name in _GIVEN))
BY_NO_TOKEN = 0
"""Of the node on a server's own machine: nobody had to let it in."""
_THIS_NODE = node_keys.c.node_id == value("node")

ALL = Query("Every join token, worthless ones too.", select(*_FIELDS).order_by(join_tokens.c.token_id))
BY_DIGEST = Query(
    "The join token with this digest.", select(*_FIELDS).where(join_tokens.c.digest == value("wanted"))
)
ADD = Query(
    "Adds a join token under the next id.", insert(join_tokens).returning(join_tokens.c.token_id), _GIVEN
)
REVOKE = Query(
    "Makes a join token worthless, once.",
    update(join_tokens)
    .values(revoked=true())
    .where(join_tokens.c.token_id == value("token"), join_tokens.c.revoked == false()),
)
SPEND = Query(
    "Spends one use of a join token that is good: the row count decides.",
    update(join_tokens)
    .values(uses_left=join_tokens.c.uses_left - constant(1))
    .where(
        join_tokens.c.digest == value("wanted"),
        join_tokens.c.revoked == false(),
        or_(join_tokens.c.expires_ms.is_(None), join_tokens.c.expires_ms > value("at_ms", BigInteger())),
        or_(join_tokens.c.uses_left.is_(None), join_tokens.c.uses_left > constant(0)),
    )
    .returning(join_tokens.c.token_id, join_tokens.c.pool),
)
KEY = Query("The digest of a node's key.", select(node_keys.c.key_digest).where(_THIS_NODE))
_give = upsert(node_keys)
GIVE_KEY = Query(
    "Gives a node this key, and no other.",
    _give.on_conflict_do_update(
        index_elements=[node_keys.c.node_id],
        set_={name: _give.excluded[name] for name in ("key_digest", "enrolled_ms", "token_id")},
    ),
)
KEEP_KEY = Query(
    "Gives a node that has no key this one.",
    upsert(node_keys).on_conflict_do_nothing(index_elements=[node_keys.c.node_id]),
)
TAKE_KEY = Query("Takes a node's key from it.", delete(node_keys).where(_THIS_NODE))
FORGET_NODE = Query("Forgets a node.", delete(nodes).where(nodes.c.node_id == value("node")))
HELD_THERE = Query(
    "How many attempts hold something on a node.",
    select(func.count()).where(
        attempts.c.state != constant(AttemptState.ENDED),
        attempts.c.state != constant(AttemptState.LOST),
        attempts.c.node_id == value("node"),
    ),
)


def every(session: Session) -> list[JoinToken]:
    return [_token(row) for row in session.rows(ALL)]


def create(session: Session, token: JoinToken) -> JoinToken:
    (token_id,) = session.the_row(ADD, **{name: getattr(token, name) for name in _GIVEN})
    return replace(token, token_id=token_id)


def revoke(session: Session, token_id: int) -> bool:
    return session.change(REVOKE, token=token_id) > 0


def enrol(session: Session, token_digest: str, node_id: str, key_digest: str, at_ms: int) -> Enrolled:
    spent = session.row(SPEND, wanted=token_digest, at_ms=at_ms)
    if spent is None:
        row = session.row(BY_DIGEST, wanted=token_digest)
        refused = refusal(None if row is None else _token(row), at_ms)
        assert refused is not None, "a join token that is good can be spent"
        raise refused
    token_id, pool = spent
    had_key = key_of(session, node_id) is not None
    session.change(GIVE_KEY, node_id=node_id, key_digest=key_digest, enrolled_ms=at_ms, token_id=token_id)
    return Enrolled(node_id, token_id, pool, replaced=had_key)


def keep_key(session: Session, node_id: str, key_digest: str, at_ms: int) -> bool:
    row = {"node_id": node_id, "key_digest": key_digest, "enrolled_ms": at_ms, "token_id": BY_NO_TOKEN}
    session.change(KEEP_KEY, **row)
    return key_of(session, node_id) == key_digest


def key_of(session: Session, node_id: str) -> str | None:
    row = session.row(KEY, node=node_id)
    return None if row is None else str(row[0])


def keys_of(session: Session, node_ids: Sequence[str]) -> list[str | None]:
    rows = session.row_each(KEY, [{"node": node_id} for node_id in node_ids])
    return [None if row is None else str(row[0]) for row in rows]


def remove_nodes(session: Session, epoch: int, node_ids: Sequence[str]) -> list[str]:
    cluster.check_epoch(session, epoch)
    return [node_id for node_id in node_ids if _remove(session, node_id)]


def _remove(session: Session, node_id: str) -> bool:
    (held,) = session.the_row(HELD_THERE, node=node_id)
    if held:
        raise NodeInUseError(node_id, held)
    known, had_key = session.change(FORGET_NODE, node=node_id), session.change(TAKE_KEY, node=node_id)
    return bool(known or had_key)


def _token(row: Row) -> JoinToken:
    *given, revoked = row
    return replace(JoinToken(*given), revoked=bool(revoked))
