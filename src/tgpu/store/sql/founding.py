"""The first rows of a new store: its id, its numbering, and the tenant that is always there."""

from sqlalchemy import insert, select

from tgpu.domain.tenant import DEFAULT_TENANT, Tenant
from tgpu.store.sql import tenants
from tgpu.store.sql.session import Query, Session
from tgpu.store.tables import counters, meta

CLUSTER_ID = Query("The id this store was founded with.", select(meta.c.cluster_id))
FOUND = Query("Gives a new store its id.", insert(meta), ["singleton", "cluster_id", "epoch"])
FOUND_COUNTERS = Query("Starts the numbering of a new store.", insert(counters))


def found(session: Session, cluster_id: str) -> str:
    """The store's id; a store that has none yet is founded with `cluster_id`."""
    row = session.row(CLUSTER_ID)
    if row is not None:
        return str(row[0])
    session.change(FOUND, singleton=1, cluster_id=cluster_id, epoch=0)
    session.change(FOUND_COUNTERS, singleton=1, last_job_id=0, last_seq=0)
    tenants.add(session, Tenant(DEFAULT_TENANT))
    tenants.mark_changed(session, DEFAULT_TENANT)
    return cluster_id
