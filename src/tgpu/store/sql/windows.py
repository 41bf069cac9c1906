"""Windows: what is kept for whom, and when; each change is marked among the events, as a tenant's is."""

from dataclasses import replace

import msgspec
from sqlalchemy import false, insert, select, true, update

from tgpu.domain.job import LabelRule
from tgpu.store.cluster_port import WindowKind, WindowRow
from tgpu.store.sql import cluster, codec
from tgpu.store.sql.session import Query, Row, Session, value
from tgpu.store.tables import windows

_GIVEN = (
    "kind",
    "name",
    "node_ids",
    "rules",
    "from_ms",
    "until_ms",
    "created_by",
    "created_ms",
    "tenant_id",
    "users",
    "cancelled",
)
_FIELDS = (windows.c.window_id, *(windows.c[name] for name in _GIVEN))
_names = msgspec.json.Decoder(tuple[str, ...])
_rules = msgspec.json.Decoder(tuple[LabelRule, ...])

ALL = Query("Every window, cancelled ones too.", select(*_FIELDS).order_by(windows.c.window_id))
OPEN = Query(
    "Every window that was not cancelled.",
    select(*_FIELDS).where(windows.c.cancelled == false()).order_by(windows.c.window_id),
)
CHANGED = Query(
    "The windows that were created or cancelled after some event.",
    select(*_FIELDS).where(windows.c.next_seq > value("after_seq")).order_by(windows.c.window_id),
)
ADD = Query(
    "Adds a window under the next id.",
    insert(windows).returning(windows.c.window_id),
    (*_GIVEN, "next_seq"),
)
CANCEL = Query(
    "Cancels a window, once.",
    update(windows)
    .values(cancelled=true())
    .where(windows.c.window_id == value("window"), windows.c.cancelled == false()),
)
MARK_CHANGED = Query(
    "Records the number of the first event after a window's change.",
    update(windows).values(next_seq=value("first_seq")).where(windows.c.window_id == value("window")),
)


def every(session: Session) -> list[WindowRow]:
    return [_window(row) for row in session.rows(ALL)]


def not_cancelled(session: Session) -> list[WindowRow]:
    return [_window(row) for row in session.rows(OPEN)]


def changed(session: Session, after_seq: int) -> list[WindowRow]:
    return [_window(row) for row in session.rows(CHANGED, after_seq=after_seq)]


def create(session: Session, window: WindowRow) -> WindowRow:
    next_seq = _next_seq(session)  # first: it holds off whoever asks for the same at the same time
    earlier = [known for known in not_cancelled(session) if window.repeats(known)]
    if earlier:
        return earlier[0]
    given: dict[str, object] = {name: getattr(window, name) for name in _GIVEN}
    for name in ("node_ids", "rules", "users"):
        given[name] = codec.text_of(given[name])
    given["kind"] = window.kind.value
    (window_id,) = session.the_row(ADD, **given, next_seq=next_seq)
    return replace(window, window_id=window_id)


def cancel(session: Session, window_id: int) -> bool:
    if not session.change(CANCEL, window=window_id):
        return False
    session.change(MARK_CHANGED, window=window_id, first_seq=_next_seq(session))
    return True


def _next_seq(session: Session) -> int:
    """Taking no numbers still holds the row that gives them out, so that no event can slip in between."""
    return cluster.reserve(session, 0, 0)[1]


def _window(row: Row) -> WindowRow:
    (window_id, kind, name, node_ids, rules, from_ms, until_ms, created_by, created_ms, tenant_id, users,
     cancelled) = row  # fmt: skip
    return WindowRow(
        window_id,
        WindowKind(kind),
        name,
        _names.decode(node_ids),
        _rules.decode(rules),
        from_ms,
        until_ms,
        created_by,
        created_ms,
        tenant_id,
        _names.decode(users),
        bool(cancelled),
    )
