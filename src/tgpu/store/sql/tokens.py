"""Keys for callers over TCP."""

from dataclasses import replace

from sqlalchemy import delete, insert, or_, select, true, update

from tgpu.domain.access import Action
from tgpu.domain.ids import AttemptId
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.priority import PriorityClass
from tgpu.store import audit_words
from tgpu.store.access_port import SESSION_PREFIX, AttemptHolder, Token, TokenRevokedError
from tgpu.store.audit_words import Deed
from tgpu.store.port import UnknownTenantError
from tgpu.store.sql import audit, cluster, tenants
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import attempts, jobs, tokens

_PLAIN = ("user", "role", "digest", "note", "created_ms", "expires_ms", "revoked", "tenant_id")
_LAST = ("jobs_left", "gpu_ms_left", "parent_id")
_GIVEN = (*_PLAIN, "actions", "highest_class", *_LAST)
_FIELDS = (tokens.c.token_id, *(tokens.c[name] for name in _GIVEN))
_THIS = tokens.c.token_id == value("token")

ALL = Query("Every token, revoked ones too.", select(*_FIELDS).order_by(tokens.c.token_id))
ONE = Query("One token.", select(*_FIELDS).where(_THIS))
BY_DIGEST = Query("The token with this digest.", select(*_FIELDS).where(tokens.c.digest == value("wanted")))
HOLDER = Query(
    "How an attempt stands, whose it is, and the token that its job was submitted with.",
    select(attempts.c.state, jobs.c.user, jobs.c.token_id, *_FIELDS)
    .select_from(
        attempts.join(jobs, jobs.c.job_id == attempts.c.job_id).outerjoin(
            tokens, tokens.c.token_id == jobs.c.token_id
        )
    )
    .where(
        attempts.c.job_id == value("job"),
        attempts.c.task_index == value("task"),
        attempts.c.number == value("which"),
    ),
)
ADD = Query("Adds a token under the next id.", insert(tokens).returning(tokens.c.token_id), _GIVEN)
REVOKE = Query(
    "Makes a token worthless, once.",
    update(tokens).values(revoked=true()).where(_THIS, tokens.c.revoked.is_(False)),
)
HOLD = Query(
    "A token, if it is not revoked, held so that nobody revokes it meanwhile.",
    select(tokens.c.token_id)
    .where(_THIS, tokens.c.revoked.is_(False))
    .with_for_update(key_share=True, of=tokens),
)
MADE_WITH = Query(
    "The tokens that were made with one, and are not revoked.",
    select(tokens.c.token_id)
    .where(tokens.c.parent_id == value("parent"), tokens.c.revoked.is_(False))
    .order_by(tokens.c.token_id),
)
ENDED_SESSIONS = Query(
    "Web sessions that were ended or have expired.",
    select(tokens.c.token_id)
    .where(
        tokens.c.digest.startswith(constant(SESSION_PREFIX)),
        or_(tokens.c.revoked.is_(True), tokens.c.expires_ms <= value("at")),
    )
    .order_by(tokens.c.token_id)
    .limit(value("most"))
    .offset(constant(0)),
)
REMOVE = Query("Removes a token.", delete(tokens).where(_THIS))
OF_TENANT = Query(
    "The tokens that are good in one tenant only, and are not revoked.",
    select(tokens.c.token_id)
    .where(tokens.c.tenant_id == value("tenant"), tokens.c.revoked.is_(False))
    .order_by(tokens.c.token_id),
)


def every(session: Session) -> list[Token]:
    return [_token(row) for row in session.rows(ALL)]


def by_digest(session: Session, digest: str) -> Token | None:
    row = session.row(BY_DIGEST, wanted=digest)
    return None if row is None else _token(row)


def by_id(session: Session, token_id: int) -> Token | None:
    row = session.row(ONE, token=token_id)
    return None if row is None else _token(row)


def makers(session: Session, token: Token) -> frozenset[str]:
    found: set[str] = set()
    while token.parent_id is not None:
        token = _token(session.the_row(ONE, token=token.parent_id))
        found.add(token.user)
    return frozenset(found)


def attempt_holder(session: Session, attempt_id: AttemptId) -> AttemptHolder | None:
    job_id, task_index, number = attempt_id
    row = session.row(HOLDER, job=job_id, task=task_index, which=number)
    if row is None or not AttemptState(row[0]).is_live:
        return None
    _, user, submitted_with, *of_token = row
    if submitted_with is None:
        return AttemptHolder(user, None)
    return None if of_token[0] is None else AttemptHolder(user, _token(tuple(of_token)))


def create(session: Session, token: Token, deed: Deed) -> Token:
    if token.tenant_id is not None:
        tenants.hold_tree(session)
        if tenants.one(session, token.tenant_id) is None:
            raise UnknownTenantError(token.tenant_id)
    if token.parent_id is not None and session.row(HOLD, token=token.parent_id) is None:
        raise TokenRevokedError(f"token {token.parent_id} was revoked: nothing more is made with it")
    given: dict[str, object] = {name: getattr(token, name) for name in (*_PLAIN, *_LAST)}
    given["actions"] = ",".join(sorted(action.value for action in token.actions))
    given["highest_class"] = None if token.highest_class is None else token.highest_class.value
    (token_id,) = session.the_row(ADD, **given)
    made = replace(token, token_id=token_id)
    audit.write(session, deed, audit_words.token_created(made))
    return made


def revoke(session: Session, token_id: int, deed: Deed) -> bool:
    """The oldest of the family first: whoever makes another one with it waits for that, and is refused."""
    if not session.change(REVOKE, token=token_id):
        return False
    token = _token(session.the_row(ONE, token=token_id))
    audit.write(session, deed, audit_words.token_revoked(token))
    for (made_with_it,) in session.rows(MADE_WITH, parent=token_id):
        revoke(session, made_with_it, deed)
    return True


def forget_sessions(session: Session, epoch: int, at_ms: int, most: int) -> int:
    """No token was made with a session, and no job was submitted with one alone."""
    cluster.check_epoch(session, epoch)
    ended = session.rows(ENDED_SESSIONS, at=at_ms, most=most)
    for (token_id,) in ended:
        session.change(REMOVE, token=token_id)
    return len(ended)


def revoke_all(session: Session, tenant_id: str, deed: Deed) -> None:
    for (token_id,) in session.rows(OF_TENANT, tenant=tenant_id):
        revoke(session, token_id, deed)


def _token(row: Row) -> Token:
    (token_id, user, role, digest, note, created_ms, expires_ms, revoked, tenant_id, actions, highest_class,
     jobs_left, gpu_ms_left, parent_id) = row  # fmt: skip
    return Token(
        token_id,
        user,
        role,
        digest,
        note,
        created_ms,
        expires_ms,
        bool(revoked),
        tenant_id,
        frozenset(Action(name) for name in actions.split(",") if name),
        None if highest_class is None else PriorityClass(highest_class),
        jobs_left,
        gpu_ms_left,
        parent_id,
    )
