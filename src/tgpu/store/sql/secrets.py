"""Secrets that all servers share: made by whoever needs one first."""

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert  # SQLite spells it the same way

from tgpu.store.sql.session import Query, Session, value
from tgpu.store.tables import secrets

PROPOSE = Query("Keeps a secret, unless there is one of that name.", insert(secrets).on_conflict_do_nothing())
KEPT = Query("The secret of that name.", select(secrets.c.body).where(secrets.c.name == value("wanted")))


def secret(session: Session, name: str, proposed: bytes) -> bytes:
    session.change(PROPOSE, name=name, body=proposed)
    return bytes(session.the_row(KEPT, wanted=name)[0])
