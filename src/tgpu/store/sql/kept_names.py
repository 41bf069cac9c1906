"""Names under which ended jobs are kept: nobody gets one unawares, and with it what those jobs printed."""

from sqlalchemy import func, select

from tgpu.domain.tenant import is_within
from tgpu.store.access_port import NameKeptError
from tgpu.store.sql import subtree
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.tables import audit, jobs, renames

KEPT = Query(
    "The first name, of one and those below it, of jobs that do not follow a tenant that was moved away.",
    select(func.min(jobs.c.tenant_id)).where(
        subtree.is_within(jobs.c.tenant_id), jobs.c.job_id > value("after")
    ),
)
MOVING = Query(
    "The names that ended jobs have yet to leave, and up to which one.",
    select(renames.c.old_id, renames.c.up_to_job_id),
)
REMOVED = Query(
    "When a tenant was last removed.",
    select(func.max(audit.c.at_ms)).where(
        audit.c.target == value("tenant"), audit.c.action == constant("tenant.remove")
    ),
)


def check_unused(session: Session, tenant_id: str) -> None:
    """Raises NameKeptError."""
    leaving = [
        up_to
        for old_id, up_to in session.rows(MOVING)
        if is_within(old_id, tenant_id) or is_within(tenant_id, old_id)
    ]
    (owner,) = session.the_row(KEPT, **subtree.within(tenant_id), after=max(leaving, default=0))
    if owner is not None:
        (removed_ms,) = session.the_row(REMOVED, tenant=owner)
        raise NameKeptError(owner, removed_ms)
