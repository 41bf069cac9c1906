"""Tenants that are created, changed, moved and removed, each with its line in the audit log.

Whoever does one of these holds the whole tree (`tenants.hold_tree`), then the tenants concerned, and writes
jobs and tasks after them: a commit, which holds those first, waits meanwhile.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from sqlalchemy import delete, func, select, update

from tgpu.domain.quota import BASIC
from tgpu.domain.tenant import Tenant, is_within, lineage, parent_of
from tgpu.store import audit_words, tenancy
from tgpu.store.access_port import NameKeptError
from tgpu.store.audit_words import Deed
from tgpu.store.port import TenantExistsError, UnknownTenantError
from tgpu.store.sql import audit, kept_names, members, renames, subtree, tenants, tokens
from tgpu.store.sql.session import Query, Session, constant, value
from tgpu.store.tables import LIVE_STATUSES, jobs, quota_lines, usage_kinds, windows
from tgpu.store.tables import members as member_rows
from tgpu.store.tables import tenants as tenant_rows
from tgpu.store.tables import tokens as token_rows

_COUNTED = tuple(tenant_rows.c[f"{name}_{kind}"] for kind in ("used", "burst") for name in BASIC)
_IS_THIS = tenant_rows.c.tenant_id == value("tenant")


RENAME = {
    table.name: subtree.rename(table)
    for table in (tenant_rows, member_rows, token_rows, windows, usage_kinds)
}
RENAME_LIVE_JOBS = subtree.rename(jobs, jobs.c.status.in_([constant(status) for status in LIVE_STATUSES]))
COUNT_ANEW = Query(
    "Records what a tenant's quota counts.",
    update(tenant_rows)
    .values({column: value(f"new_{column.name}") for column in _COUNTED}
            | {name: value(f"new_{name}") for name in ("running", "waiting", "gpu_ms_used")})
    .where(_IS_THIS),
)  # fmt: skip
COUNT_LINE_ANEW = Query(
    "Records what a named limit counts.",
    update(quota_lines)
    .values(used=value("new_used"), burst=value("new_burst"))
    .where(quota_lines.c.tenant_id == value("tenant"), quota_lines.c.name == value("line")),
)
REMOVE_LINES = Query(
    "Takes the named limits of a tenant and everybody below it away.",
    delete(quota_lines).where(subtree.is_within(quota_lines.c.tenant_id)),
)
NEW_VERSION = Query(
    "Gives a tenant its next version.",
    update(tenant_rows).values(version=tenant_rows.c.version + constant(1)).where(_IS_THIS),
)
LIVE_JOBS = Query(
    "How many jobs of a tenant are not over.",
    select(func.count()).where(
        jobs.c.tenant_id == value("tenant"), jobs.c.status.in_([constant(status) for status in LIVE_STATUSES])
    ),
)
REMOVE = Query("Forgets a tenant.", delete(tenant_rows).where(_IS_THIS))


def create(session: Session, asked: Tenant, deed: Deed, *, take_over: bool) -> Tenant:
    tenants.hold_tree(session)
    parent_id = asked.parent_id
    if parent_id is not None and tenants.one(session, parent_id) is None:
        raise UnknownTenantError(parent_id)
    if tenants.one(session, asked.tenant_id) is not None:
        raise TenantExistsError(f"there is a tenant {asked.tenant_id!r} already")
    took_over = False
    try:
        kept_names.check_unused(session, asked.tenant_id)
    except NameKeptError:
        if not take_over:
            raise
        took_over = True
    made = tenancy.created(asked, deed.at_ms)
    tenants.add(session, made)
    audit.write(session, deed, audit_words.tenant_created(made, took_over=took_over))
    tenants.mark_changed(session, made.tenant_id)
    return made


def change(
    session: Session,
    tenant_id: str,
    wish: Callable[[Tenant], Tenant],
    deed: Deed,
    if_version: int | None,
) -> Tenant:
    tenants.hold_tree(session)
    tenants.hold(session, [tenant_id])
    now = tenants.the_one(session, tenant_id, if_version)
    living = cache(lambda: subtree.living(session, tenant_id))
    after = tenancy.changed(now, wish(now), deed.at_ms, living)
    if after is now:
        return now
    tenants.rewrite(session, now, after)
    audit.write(session, deed, audit_words.tenant_updated(now, after))
    others = []
    if tenancy.has_other_models(now, after):
        others = tenancy.with_other_requests(living(), _by_name(session))
        subtree.change_requests(session, others)
    if others:
        tenants.mark_rearranged(session)
    tenants.mark_changed(session, tenant_id)
    return after


def move(session: Session, tenant_id: str, to_id: str, deed: Deed, if_version: int | None) -> Tenant:
    tenants.hold_tree(session)
    tenants.the_one(session, tenant_id, if_version)
    names = tenancy.new_names(_by_name(session), tenant_id, to_id)
    kept_names.check_unused(session, to_id)
    tenants.hold(session, {*lineage(tenant_id), *lineage(parent_of(to_id) or tenant_id)})
    before = _by_name(session)
    living = subtree.living(session, tenant_id)
    for above in tenancy.with_new_parents(before, before[tenant_id], to_id, living):
        _count_anew(session, above)
    _rename_all(session, tenant_id, to_id)
    for name, new_name in names.items():
        tenants.add_lines(session, replace(before[name], tenant_id=new_name))
    session.change(NEW_VERSION, tenant=to_id)
    moved = [replace(task, tenant_id=names[task.tenant_id]) for task in living]
    subtree.change_requests(session, tenancy.with_other_requests(moved, _by_name(session)))
    audit.write(session, deed, audit_words.tenant_moved(tenant_id, to_id))
    renames.add(session, tenant_id, to_id, tenants.mark_rearranged(session))
    return tenants.the_one(session, to_id)


def remove(session: Session, tenant_id: str, deed: Deed, if_version: int | None) -> bool:
    tenants.hold_tree(session)
    tenants.hold(session, [tenant_id])
    if tenants.one(session, tenant_id) is None:
        return False
    tenant = tenants.the_one(session, tenant_id, if_version)
    below = [name for name in _by_name(session) if is_within(name, tenant_id) and name != tenant_id]
    (live,) = session.the_row(LIVE_JOBS, tenant=tenant_id)
    tenancy.check_unused(tenant_id, below, live)
    session.change(REMOVE_LINES, **subtree.within(tenant_id))
    gone = members.of_tenant(session, tenant_id)
    members.remove_all(session, tenant_id)
    tokens.revoke_all(session, tenant_id, deed)
    session.change(REMOVE, tenant=tenant_id)
    audit.write(session, deed, audit_words.tenant_removed(tenant, gone))
    tenants.mark_rearranged(session)
    return True


def _by_name(session: Session) -> dict[str, Tenant]:
    return {tenant.tenant_id: tenant for tenant in tenants.every(session)}


def _count_anew(session: Session, tenant: Tenant) -> None:
    counted = {
        f"new_{name}_{kind}": getattr(amounts, name)
        for kind, amounts in (("used", tenant.used), ("burst", tenant.burst))
        for name in BASIC
    }
    use = tenant.job_use
    session.change(
        COUNT_ANEW,
        tenant=tenant.tenant_id,
        new_running=use.running,
        new_waiting=use.waiting,
        new_gpu_ms_used=use.gpu_ms,
        **counted,
    )
    used, burst = dict(tenant.used.named), dict(tenant.burst.named)
    for name, _ in tenant.limits.named:
        session.change(
            COUNT_LINE_ANEW,
            tenant=tenant.tenant_id,
            line=name,
            new_used=used.get(name, 0),
            new_burst=burst.get(name, 0),
        )


def _rename_all(session: Session, tenant_id: str, to_id: str) -> None:
    """But for jobs that are over: they follow (`renames.py`). Named limits refer to their tenant's row: they
    are taken away first, and added again by whoever calls this."""
    session.change(REMOVE_LINES, **subtree.within(tenant_id))
    for query in (*RENAME.values(), RENAME_LIVE_JOBS):
        session.change(query, **subtree.renamed(tenant_id, to_id))
