"""Who has which role where."""

from dataclasses import replace

from sqlalchemy import delete, insert, select, update

from tgpu.domain.access import EVERYWHERE, ROLES, Member
from tgpu.store import audit_words
from tgpu.store.access_port import NoSuchMemberError
from tgpu.store.audit_words import Deed
from tgpu.store.port import UnknownTenantError
from tgpu.store.sql import audit, tenants
from tgpu.store.sql.session import Query, Row, Session, value
from tgpu.store.tables import members

_FIELDS = (members.c.user, members.c.tenant_id, members.c.role, members.c.by, members.c.at_ms)
_THIS = (members.c.user == value("who"), members.c.tenant_id == value("tenant"))

ALL = Query("Every member.", select(*_FIELDS).order_by(members.c.user, members.c.tenant_id))
ONE = Query("A user's role in one tenant.", select(*_FIELDS).where(*_THIS))
OF_TENANT = Query(
    "The members of one tenant.",
    select(*_FIELDS).where(members.c.tenant_id == value("tenant")).order_by(members.c.user),
)
ADD = Query("Adds a member.", insert(members))
REPLACE = Query(
    "Gives a member another role.",
    update(members)
    .values(role=value("new_role"), by=value("new_by"), at_ms=value("new_at_ms"))
    .where(*_THIS),
)
REMOVE = Query("Forgets a member.", delete(members).where(*_THIS))
REMOVE_ALL = Query(
    "Forgets every member of a tenant.", delete(members).where(members.c.tenant_id == value("tenant"))
)


def every(session: Session) -> list[Member]:
    return [_member(row) for row in session.rows(ALL)]


def of_tenant(session: Session, tenant_id: str) -> list[Member]:
    return [_member(row) for row in session.rows(OF_TENANT, tenant=tenant_id)]


def put(session: Session, member: Member, deed: Deed) -> Member:
    tenants.hold_tree(session)
    if member.tenant_id != EVERYWHERE and tenants.one(session, member.tenant_id) is None:
        raise UnknownTenantError(member.tenant_id)
    before = _one(session, member.user, member.tenant_id)
    after = replace(member, by=deed.actor.user, at_ms=deed.at_ms)
    if before is None:
        session.change(
            ADD,
            user=after.user,
            tenant_id=after.tenant_id,
            role=after.role.word,
            by=after.by,
            at_ms=after.at_ms,
        )
    else:
        session.change(
            REPLACE,
            who=after.user,
            tenant=after.tenant_id,
            new_role=after.role.word,
            new_by=after.by,
            new_at_ms=after.at_ms,
        )
    audit.write(session, deed, audit_words.member_set(before, after))
    return after


def remove(session: Session, user: str, tenant_id: str, deed: Deed) -> None:
    tenants.hold_tree(session)
    member = _one(session, user, tenant_id)
    if member is None:
        raise NoSuchMemberError(f"{user} has no role in {tenant_id} of its own")
    session.change(REMOVE, who=user, tenant=tenant_id)
    audit.write(session, deed, audit_words.member_removed(member))


def remove_all(session: Session, tenant_id: str) -> None:
    session.change(REMOVE_ALL, tenant=tenant_id)


def _one(session: Session, user: str, tenant_id: str) -> Member | None:
    row = session.row(ONE, who=user, tenant=tenant_id)
    return None if row is None else _member(row)


def _member(row: Row) -> Member:
    user, tenant_id, role, by, at_ms = row
    return Member(user, tenant_id, ROLES[role], by, at_ms)
