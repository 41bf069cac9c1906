"""The lease: who leads, and until when by the database's clock.

A lease counts only while its epoch is the newest. Whoever needs both rows takes the lease's first, and the
epoch's then.
"""

from sqlalchemy import null, or_, select, update

from tgpu.store.cluster_port import Leader
from tgpu.store.sql import cluster
from tgpu.store.sql.clock import NowMs
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.tables import lease, meta

_NEWEST = select(meta.c.epoch).scalar_subquery()
_RUNS = lease.c.expires_ms > NowMs()

TAKE = Query(
    "Gives the lease to a server, unless another one holds it: the row count decides.",
    update(lease)
    .values(server_id=value("server"))
    .where(
        or_(
            lease.c.server_id == value("server"),
            # Older, not merely another: whoever had to wait for the winner sees the winner's lease here, and
            # still the epoch of before.
            lease.c.epoch < _NEWEST,
            lease.c.expires_ms.is_(None),
            ~_RUNS,
        )
    ),
)
BEGIN = Query(
    "Begins the lease of a new epoch.",
    update(lease).values(
        epoch=value("new_epoch"), expires_ms=NowMs() + value("ttl_ms", lease.c.expires_ms.type)
    ),
)
RENEW = Query(
    "Lets the lease of the newest epoch run on.",
    update(lease)
    .values(expires_ms=NowMs() + value("ttl_ms", lease.c.expires_ms.type))
    .where(lease.c.epoch == value("held"), lease.c.epoch == _NEWEST, lease.c.expires_ms.is_not(None)),
)
RESIGN = Query(
    "Ends the lease of an epoch.",
    update(lease).values(expires_ms=null()).where(lease.c.epoch == value("held")),
)
LEADER = Query(
    "Who has the lease of the newest epoch, and how long it still runs.",
    select(lease.c.server_id, lease.c.epoch, lease.c.expires_ms - NowMs()).where(
        lease.c.epoch == _NEWEST, lease.c.epoch > constant(0)
    ),
)


def campaign(session: Session, server_id: str, ttl_ms: int) -> int | None:
    if not session.change(TAKE, server=server_id):
        return None
    epoch = cluster.claim(session)
    session.change(BEGIN, new_epoch=epoch, ttl_ms=ttl_ms)
    return epoch


def renew(session: Session, epoch: int, ttl_ms: int) -> bool:
    return session.change(RENEW, held=epoch, ttl_ms=ttl_ms) > 0


def resign(session: Session, epoch: int) -> None:
    session.change(RESIGN, held=epoch)


def leader(session: Session) -> Leader | None:
    row = session.row(LEADER)
    if row is None:
        return None
    server_id, epoch, left_ms = row
    return Leader(server_id, epoch, alive=left_ms is not None and left_ms > 0, left_ms=max(0, left_ms or 0))
