"""The log of who changed what: written in the same transaction as each change, and never changed itself."""

from sqlalchemy import BigInteger, ColumnElement, Text, func, insert, or_, select

from tgpu.domain.access import Actor, AuditEntry
from tgpu.store.access_port import AuditFilter
from tgpu.store.audit_words import Change, Deed
from tgpu.store.sql.session import Query, Row, Session, constant, value
from tgpu.store.tables import audit

_FIELDS = (
    audit.c.audit_id,
    audit.c.at_ms,
    audit.c.user,
    audit.c.via,
    audit.c.address,
    audit.c.token_id,
    audit.c.action,
    audit.c.target,
    audit.c.before,
    audit.c.after,
)


def _unless_none(name: str, condition: ColumnElement[bool], kind: Text | BigInteger) -> ColumnElement[bool]:
    return or_(value(name, kind).is_(None), condition)


def _is_or_begins(column: ColumnElement[str], whole: str, beginning: str) -> ColumnElement[bool]:
    length = func.length(value(beginning, Text()))
    begins = func.substr(column, constant(1), length) == value(beginning, Text())
    return _unless_none(whole, or_(column == value(whole, Text()), begins), Text())


ADD = Query("Adds a line to the log.", insert(audit), [column.name for column in _FIELDS[1:]])
WANTED = Query(
    "The newest lines of the log that are asked for.",
    select(*_FIELDS)
    .where(
        audit.c.audit_id < value("below_id", BigInteger()),
        _unless_none("wanted_user", audit.c.user == value("wanted_user", Text()), Text()),
        _is_or_begins(audit.c.action, "wanted_action", "action_beginning"),
        _is_or_begins(audit.c.target, "wanted_target", "target_beginning"),
        _unless_none("from_ms", audit.c.at_ms >= value("from_ms", BigInteger()), BigInteger()),
        _unless_none("until_ms", audit.c.at_ms < value("until_ms", BigInteger()), BigInteger()),
    )
    .order_by(audit.c.audit_id.desc())
    .limit(value("most"))
    .offset(constant(0)),
)
_NEWEST = 1 << 31


def write(session: Session, deed: Deed, change: Change) -> None:
    session.change(
        ADD,
        at_ms=deed.at_ms,
        user=deed.actor.user,
        via=deed.actor.via,
        address=deed.actor.address,
        token_id=deed.actor.token_id,
        action=change.action,
        target=change.target,
        before=change.before,
        after=change.after,
    )


def entries(session: Session, where: AuditFilter, limit: int, before_id: int | None) -> list[AuditEntry]:
    rows = session.rows(
        WANTED,
        below_id=_NEWEST if before_id is None else min(before_id, _NEWEST),
        wanted_user=where.user,
        wanted_action=where.action,
        action_beginning=f"{where.action}.",
        wanted_target=where.target,
        target_beginning=f"{where.target}/",
        from_ms=where.from_ms,
        until_ms=where.until_ms,
        most=limit,
    )
    return [_entry(row) for row in rows]


def _entry(row: Row) -> AuditEntry:
    audit_id, at_ms, user, via, address, token_id, action, target, before, after = row
    return AuditEntry(audit_id, at_ms, Actor(user, via, address, token_id), action, target, before, after)
