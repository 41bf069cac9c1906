"""Who may be a node: the tokens by which nodes join, and the key that each of them has since."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
from sqlalchemy import BigInteger, delete, false, func, insert, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert  # SQLite spells it the same way

from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.node_limits import Admission, NodeLimits
from tgpu.store.cluster_port import (
    Applicant,
    Enrolled,
    JoinToken,
    NodeInUseError,
)
from tgpu.store.join_rules import refusal
from tgpu.store.sql import cluster, codec
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import attempts, join_tokens, node_keys, nodes

_LIMITS = ("node_name", "labels", "serves", "address")
_GIVEN = (
    "digest",
    "note",
    "created_by",
    "created_ms",
    "expires_ms",
    "uses_left",
    "pool",
    "revoked",
    *_LIMITS,
)
_labels = msgspec.json.Decoder(tuple[str, ...])
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
_OF_KEY = ("key_digest", "enrolled_ms", "token_id", "approved", "joined_from")
_give = upsert(node_keys)
GIVE_KEY = Query(
    "Gives a node this key, and no other.",
    _give.on_conflict_do_update(
        index_elements=[node_keys.c.node_id],
        set_={name: _give.excluded[name] for name in _OF_KEY},
    ),
)
KEEP_KEY = Query(
    "Gives a node that has no key this one.",
    upsert(node_keys).on_conflict_do_nothing(index_elements=[node_keys.c.node_id]),
)
ADMISSION = Query(
    "Whether a node is approved, and the limits of the token by which it joined.",
    select(
        node_keys.c.approved,
        join_tokens.c.pool,
        join_tokens.c.labels,
        join_tokens.c.serves,
        join_tokens.c.address,
    )
    .select_from(node_keys.outerjoin(join_tokens, join_tokens.c.token_id == node_keys.c.token_id))
    .where(_THIS_NODE),
)
APPLICANTS = Query(
    "Nodes that wait for approval.",
    select(node_keys.c.node_id, node_keys.c.token_id, node_keys.c.enrolled_ms, node_keys.c.joined_from)
    .where(node_keys.c.approved == false())
    .order_by(node_keys.c.node_id),
)
APPROVE = Query(
    "Approves a node that waits for it.",
    update(node_keys).values(approved=true()).where(_THIS_NODE, node_keys.c.approved == false()),
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
    given = {name: getattr(token, name) for name in _GIVEN}
    given["labels"] = None if token.labels is None else codec.text_of(token.labels)
    (token_id,) = session.the_row(ADD, **given)
    return replace(token, token_id=token_id)


def revoke(session: Session, token_id: int) -> bool:
    return session.change(REVOKE, token=token_id) > 0


def enrol(  # noqa: PLR0917  as the port
    session: Session,
    token_digest: str,
    node_id: str,
    key_digest: str,
    at_ms: int,
    address: str,
    approved: bool,
) -> Enrolled:
    _check(session, token_digest, node_id, at_ms, address)
    spent = session.row(SPEND, wanted=token_digest, at_ms=at_ms)
    if spent is None:  # by another node, since it was looked at
        _check(session, token_digest, node_id, at_ms, address)
        raise AssertionError("a join token that is good can be spent")
    token_id, pool = spent
    had_key = key_of(session, node_id) is not None
    session.change(
        GIVE_KEY,
        node_id=node_id,
        key_digest=key_digest,
        enrolled_ms=at_ms,
        token_id=token_id,
        approved=approved,
        joined_from=address,
    )
    return Enrolled(node_id, token_id, pool, replaced=had_key)


def _check(session: Session, token_digest: str, node_id: str, at_ms: int, address: str) -> None:
    row = session.row(BY_DIGEST, wanted=token_digest)
    refused = refusal(None if row is None else _token(row), at_ms, node_id, address)
    if refused is not None:
        raise refused


def admissions(session: Session, node_ids: Sequence[str]) -> list[Admission | None]:
    rows = session.row_each(ADMISSION, [{"node": node_id} for node_id in node_ids])
    return [None if row is None else _admission(row) for row in rows]


def _admission(row: Row) -> Admission:
    approved, pool, labels, serves, address = row
    return Admission(bool(approved), NodeLimits(pool, _label_limits(labels), serves, address))


def applicants(session: Session) -> list[Applicant]:
    return [
        Applicant(node_id, token_id, at_ms, address or "")
        for node_id, token_id, at_ms, address in session.rows(APPLICANTS)
    ]


def approve(session: Session, node_ids: Sequence[str]) -> list[str]:
    return [node_id for node_id in node_ids if session.change(APPROVE, node=node_id)]


def keep_key(session: Session, node_id: str, key_digest: str, at_ms: int) -> bool:
    session.change(
        KEEP_KEY,
        node_id=node_id,
        key_digest=key_digest,
        enrolled_ms=at_ms,
        token_id=BY_NO_TOKEN,
        approved=True,
        joined_from=None,
    )
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
    token = JoinToken(*row)
    return replace(token, revoked=bool(token.revoked), labels=_label_limits(token.labels))


def _label_limits(kept: object) -> tuple[str, ...] | None:
    return None if kept is None else _labels.decode(str(kept))
