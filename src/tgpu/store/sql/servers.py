"""The servers of the cluster, as each of them announces itself."""

from sqlalchemy import delete, select
from sqlalchemy.dialects.postgresql import insert  # SQLite spells an upsert the same way

from tgpu.store.cluster_port import ServerRow
from tgpu.store.sql.clock import NowMs
from tgpu.store.sql.session import Query, Session, value
from tgpu.store.tables import servers

_SAID = ("server_id", "url", "version", "config_digest", "started_ms")

_add = insert(servers).values({name: value(name) for name in _SAID} | {"seen_ms": NowMs()})
ANNOUNCE = Query(
    "Adds a server, or what it says of itself now, and that it was seen.",
    _add.on_conflict_do_update(
        index_elements=[servers.c.server_id],
        set_={name: _add.excluded[name] for name in (*_SAID[1:], "seen_ms")},
    ),
)
SEEN = Query(
    "The servers that were seen not long ago.",
    select(*(servers.c[name] for name in _SAID), NowMs() - servers.c.seen_ms)
    .where(servers.c.seen_ms >= NowMs() - value("within_ms", servers.c.seen_ms.type))
    .order_by(servers.c.server_id),
)
WITHDRAW = Query("Forgets a server.", delete(servers).where(servers.c.server_id == value("server")))


def announce(session: Session, server: ServerRow) -> None:
    session.change(ANNOUNCE, **{name: getattr(server, name) for name in _SAID})


def seen(session: Session, within_ms: int) -> list[ServerRow]:
    return [ServerRow(*row) for row in session.rows(SEEN, within_ms=within_ms)]


def withdraw(session: Session, server_id: str) -> None:
    session.change(WITHDRAW, server=server_id)
