"""Tenants as rows: how they are read and written whole, held, and marked among the events."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import delete, insert, select, update

from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import BASIC, Amounts, JobLimits, JobUse, Limits, Named, OverQuota, Period
from tgpu.domain.tenant import Budget, Tenant, Terms
from tgpu.store.port import StaleVersionError, UnknownTenantError
from tgpu.store.sql import cluster
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import meta, quota_lines, tenants
from tgpu.store.tenancy import without_use

_SETTINGS = (
    "weight",
    *(f"{name}_limit" for name in BASIC),
    "running_limit",
    "waiting_limit",
    "gpu_ms_limit",
    "gpu_period",
    "tier",
    "default_class",
    "classes",
    "default_limit_s",
    "most_limit_s",
    "over_quota",
    "may_burst",
    "archived",
    "budget_gpu_ms",
    "budget_period",
)
"""What people say of a tenant; the rest is counted."""
_COUNTS = (
    *(f"{name}_used" for name in BASIC),
    *(f"{name}_burst" for name in BASIC),
    "running",
    "waiting",
    "gpu_ms_used",
    "gpu_period_from_ms",
)
_FIELDS = tuple(tenants.c[name] for name in ("tenant_id", "version", "quota_lines", *_SETTINGS, *_COUNTS))
_LINE_FIELDS = (
    quota_lines.c.tenant_id,
    quota_lines.c.name,
    quota_lines.c.most,
    quota_lines.c.used,
    quota_lines.c.burst,
)
_IS_THIS = tenants.c.tenant_id == value("tenant")

ALL = Query("Every tenant.", select(*_FIELDS).order_by(tenants.c.tenant_id))
ONE = Query("One tenant.", select(*_FIELDS).where(_IS_THIS))
CHANGED = Query(
    "The tenants that changed after some event.",
    select(*_FIELDS).where(tenants.c.next_seq > value("after_seq")).order_by(tenants.c.tenant_id),
)
LINES = Query(
    "Every named limit, and what is used of it.",
    select(*_LINE_FIELDS).order_by(quota_lines.c.tenant_id, quota_lines.c.name),
)
LINES_OF = Query(
    "The named limits of one tenant, and what is used of them.",
    select(*_LINE_FIELDS).where(quota_lines.c.tenant_id == value("tenant")).order_by(quota_lines.c.name),
)
HOLD_TREE = Query(
    "Holds the whole tree against whoever changes it, and with it every commit.",
    select(meta.c.epoch).with_for_update(),
)
HOLD = Query(
    "Holds a tenant against every other writer.",
    select(tenants.c.tenant_id)
    .where(_IS_THIS)
    .order_by(tenants.c.tenant_id)
    .with_for_update(key_share=True, of=tenants),
)
MARK_CHANGED = Query(
    "Records the number of the first event after a tenant's change.",
    update(tenants).values(next_seq=value("first_seq")).where(_IS_THIS),
)
MARK_REARRANGED = Query(
    "Records where among the events tenants were moved or removed.",
    update(meta).values(rearranged_seq=value("seq")),
)
ADD = Query(
    "Adds a tenant that has admitted nothing.",
    insert(tenants),
    ["tenant_id", "version", "quota_lines", "gpu_period_from_ms", *_SETTINGS],
)
REWRITE = Query(
    "Changes what people say of a tenant, and begins its period of GPU-hours.",
    update(tenants)
    .values(
        {name: value(f"new_{name}", tenants.c[name].type) for name in _SETTINGS}
        | {name: value(name, tenants.c[name].type) for name in ("gpu_ms_used", "gpu_period_from_ms")}
        | {"quota_lines": value("lines"), "version": tenants.c.version + constant(1)}
    )
    .where(_IS_THIS),
)
ADD_LINE = Query("Adds a named limit, with what lives.", insert(quota_lines))
REWRITE_LINE = Query(
    "Changes a named limit.",
    update(quota_lines)
    .values(most=value("new_most"))
    .where(quota_lines.c.tenant_id == value("tenant"), quota_lines.c.name == value("line")),
)
REMOVE_LINE = Query(
    "Takes a named limit away.",
    delete(quota_lines).where(
        quota_lines.c.tenant_id == value("tenant"), quota_lines.c.name == value("line")
    ),
)


def every(session: Session) -> list[Tenant]:
    return _tenants(session, session.rows(ALL))


def terms(session: Session) -> list[Tenant]:
    """Without what they use, but for GPU-hours."""
    return [without_use(tenant) for tenant in every(session)]


def changed_terms(session: Session, after_seq: int) -> list[Tenant]:
    changed = session.rows(CHANGED, after_seq=after_seq)
    return [without_use(tenant) for tenant in _tenants(session, changed)]


def one(session: Session, tenant_id: str) -> Tenant | None:
    row = session.row(ONE, tenant=tenant_id)
    if row is None:
        return None
    return _tenant(row, session.rows(LINES_OF, tenant=tenant_id) if row[2] else ())


def the_one(session: Session, tenant_id: str, if_version: int | None = None) -> Tenant:
    """Raises UnknownTenantError, StaleVersionError."""
    tenant = one(session, tenant_id)
    if tenant is None:
        raise UnknownTenantError(tenant_id)
    if if_version is not None and if_version != tenant.version:
        raise StaleVersionError(tenant.version)
    return tenant


def add(session: Session, tenant: Tenant) -> None:
    session.change(
        ADD,
        tenant_id=tenant.tenant_id,
        version=tenant.version,
        quota_lines=len(tenant.limits.named),
        gpu_period_from_ms=tenant.job_use.period_from_ms,
        **_settings(tenant),
    )
    add_lines(session, tenant)


def add_lines(session: Session, tenant: Tenant) -> None:
    """Its named limits, with what is used of them."""
    used, burst = dict(tenant.used.named), dict(tenant.burst.named)
    for name, most in tenant.limits.named:
        session.change(
            ADD_LINE,
            tenant_id=tenant.tenant_id,
            name=name,
            most=most,
            used=used.get(name, 0),
            burst=burst.get(name, 0),
        )


def rewrite(session: Session, before: Tenant, after: Tenant) -> None:
    """Everything that is said of it, its GPU-hours, and what is used of named limits that are new."""
    session.change(
        REWRITE,
        tenant=after.tenant_id,
        lines=len(after.limits.named),
        gpu_ms_used=after.job_use.gpu_ms,
        gpu_period_from_ms=after.job_use.period_from_ms,
        **{f"new_{name}": setting for name, setting in _settings(after).items()},
    )
    old, new = dict(before.limits.named), dict(after.limits.named)
    for name in old.keys() - new.keys():
        session.change(REMOVE_LINE, tenant=after.tenant_id, line=name)
    for name in sorted(new.keys() & old.keys()):
        session.change(REWRITE_LINE, tenant=after.tenant_id, line=name, new_most=new[name])
    fresh = tuple((name, most) for name, most in after.limits.named if name not in old)
    add_lines(session, replace(after, limits=Limits(named=fresh)))


def hold_tree(session: Session) -> None:
    """Whoever changes the tree, or relies on it to stay, does so alone. A commit waits meanwhile, so that
    jobs and tasks may be written after tenants here; a submission does not, for that holds tenants."""
    session.hold(HOLD_TREE, [{}])


def keep_tree(session: Session) -> None:
    """For whoever holds jobs before tenants: nobody changes the tree meanwhile. Commits do the same by their
    epoch, and are not held up."""
    session.rows(cluster.EPOCH)


def hold(session: Session, tenant_ids: Iterable[str]) -> None:
    """Whoever holds a tenant holds everybody below it: all lock the whole lineage, the root first."""
    session.hold(HOLD, [{"tenant": tenant_id} for tenant_id in sorted(tenant_ids)])


def mark_changed(session: Session, tenant_id: str) -> None:
    """Taking no numbers still holds the row that gives them out, so that no event can slip in between. The
    tenant's row is held before it, as a submission does."""
    _, first_seq = cluster.reserve(session, 0, 0)
    session.change(MARK_CHANGED, tenant=tenant_id, first_seq=first_seq)


def mark_rearranged(session: Session) -> int:
    """By a number that no event gets: whoever loads everything afterwards has passed it. Returns the id of
    the newest job."""
    next_job_id, seq = cluster.reserve(session, 0, 1)
    session.change(MARK_REARRANGED, seq=seq)
    return next_job_id - 1


def _tenants(session: Session, rows: list[Row]) -> list[Tenant]:
    lines: defaultdict[str, list[Row]] = defaultdict(list)
    if any(row[2] for row in rows):
        for line in session.rows(LINES):
            lines[line[0]].append(line)
    return [_tenant(row, lines[row[0]] if row[2] else ()) for row in rows]


def _settings(tenant: Tenant) -> Values:
    limits, jobs, terms, budget = tenant.limits, tenant.job_limits, tenant.terms, tenant.budget
    return {
        "weight": tenant.weight,
        **{f"{name}_limit": getattr(limits, name) for name in BASIC},
        "running_limit": jobs.running,
        "waiting_limit": jobs.waiting,
        "gpu_ms_limit": jobs.gpu_ms,
        "gpu_period": jobs.period.value,
        "tier": terms.tier,
        "default_class": None if terms.default_class is None else terms.default_class.value,
        "classes": None if terms.classes is None else ",".join(sorted(each.value for each in terms.classes)),
        "default_limit_s": terms.default_limit_s,
        "most_limit_s": terms.most_limit_s,
        "over_quota": None if terms.over_quota is None else terms.over_quota.value,
        "may_burst": terms.may_burst,
        "archived": terms.archived,
        "budget_gpu_ms": None if budget is None else budget.gpu_ms,
        "budget_period": (Period.MONTH if budget is None else budget.period).value,
    }


def _tenant(row: Row, lines: Iterable[Row]) -> Tenant:
    (tenant_id, version, _, weight, *limits, running_limit, waiting_limit, gpu_ms_limit, gpu_period,
     tier, default_class, classes, default_limit_s, most_limit_s, over_quota, may_burst, archived,
     budget_gpu_ms, budget_period) = row[: -len(_COUNTS)]  # fmt: skip
    *amounts, running, waiting, gpu_ms, period_from_ms = row[-len(_COUNTS) :]
    most, used, burst = _by_name(lines)
    return Tenant(
        tenant_id,
        weight,
        replace(Limits(*limits), named=most),
        replace(Amounts(*amounts[:4]), named=used),
        version,
        JobLimits(running_limit, waiting_limit, gpu_ms_limit, Period(gpu_period)),
        JobUse(running, waiting, gpu_ms, period_from_ms),
        replace(Amounts(*amounts[4:]), named=burst),
        Terms(
            tier,
            None if default_class is None else PriorityClass(default_class),
            None
            if classes is None
            else frozenset(PriorityClass(name) for name in classes.split(",") if name),
            default_limit_s,
            most_limit_s,
            None if over_quota is None else OverQuota(over_quota),
            None if may_burst is None else bool(may_burst),
            bool(archived),
        ),
        None if budget_gpu_ms is None else Budget(budget_gpu_ms, Period(budget_period)),
    )


def _by_name(lines: Iterable[Row]) -> tuple[Named, Named, Named]:
    """(limits, used, burst)"""
    found = list(lines)
    return (
        tuple((name, most) for _, name, most, _, _ in found),
        tuple((name, used) for _, name, _, used, _ in found if used),
        tuple((name, burst) for _, name, _, _, burst in found if burst),
    )
