"""What users keep for their jobs: shown to nobody, and named in the audit log without its content."""

from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert  # SQLite spells it the same way

from tgpu.store import audit_words
from tgpu.store.audit_words import Deed
from tgpu.store.sql import audit
from tgpu.store.sql.session import Query, Session, value
from tgpu.store.tables import user_secrets

_NEW = insert(user_secrets)
_THIS = (user_secrets.c.user == value("owner"), user_secrets.c.name == value("wanted"))

PUT = Query(
    "Keeps a secret in the place of any that was there.",
    _NEW.on_conflict_do_update(
        index_elements=["user", "name"], set_={"body": _NEW.excluded.body, "at_ms": _NEW.excluded.at_ms}
    ),
)
NAMES = Query(
    "The names of a user's secrets, and when each was set.",
    select(user_secrets.c.name, user_secrets.c.at_ms)
    .where(user_secrets.c.user == value("owner"))
    .order_by(user_secrets.c.name),
)
BODY = Query("What a secret says.", select(user_secrets.c.body).where(*_THIS))
REMOVE = Query("Forgets a secret.", delete(user_secrets).where(*_THIS))


def put(session: Session, user: str, name: str, body: bytes, deed: Deed) -> None:
    session.change(PUT, user=user, name=name, body=body, at_ms=deed.at_ms)
    audit.write(session, deed, audit_words.secret_set(user, name))


def names(session: Session, user: str) -> list[tuple[str, int]]:
    return [(name, at_ms) for name, at_ms in session.rows(NAMES, owner=user)]


def remove(session: Session, user: str, name: str, deed: Deed) -> bool:
    if not session.change(REMOVE, owner=user, wanted=name):
        return False
    audit.write(session, deed, audit_words.secret_removed(user, name))
    return True


def bodies(session: Session, user: str, wanted: Sequence[str]) -> dict[str, bytes]:
    found = {name: session.row(BODY, owner=user, wanted=name) for name in dict.fromkeys(wanted)}
    return {name: bytes(row[0]) for name, row in found.items() if row is not None}
