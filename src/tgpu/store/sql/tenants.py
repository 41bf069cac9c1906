"""Tenants and the ledger of what each has admitted."""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, insert, or_, select, update

from tgpu.domain.tenant import Amounts, Limits, Tenant
from tgpu.store.port import QuotaExceededError, StaleVersionError, TenantExistsError, UnknownTenantError
from tgpu.store.sql import cluster
from tgpu.store.sql.session import Query, Row, Session, Values, constant, value
from tgpu.store.tables import tenants

_DIMENSIONS = ("cpu_milli", "memory_mib", "disk_mib", "gpu_milli")
_FIELDS = (
    tenants.c.tenant_id,
    tenants.c.weight,
    *(tenants.c[f"{name}_limit"] for name in _DIMENSIONS),
    *(tenants.c[f"{name}_used"] for name in _DIMENSIONS),
    tenants.c.version,
)
_TERMS = (
    tenants.c.tenant_id,
    tenants.c.weight,
    *(tenants.c[f"{name}_limit"] for name in _DIMENSIONS),
    tenants.c.version,
)


def _has_room(name: str) -> ColumnElement[bool]:
    limit = tenants.c[f"{name}_limit"]
    return or_(limit.is_(None), tenants.c[f"{name}_used"] + value(name) <= limit)


_IS_THIS = tenants.c.tenant_id == value("tenant")


ALL = Query("Every tenant.", select(*_FIELDS).order_by(tenants.c.tenant_id))
ONE = Query("One tenant.", select(*_FIELDS).where(_IS_THIS))
HOLD = Query(
    "Holds a tenant against every other writer.",
    select(tenants.c.tenant_id)
    .where(_IS_THIS)
    .order_by(tenants.c.tenant_id)
    .with_for_update(key_share=True, of=tenants),
)
TERMS = Query("Every tenant, without what it uses.", select(*_TERMS).order_by(tenants.c.tenant_id))
CHANGED_TERMS = Query(
    "The tenants that changed after some event, without what they use.",
    select(*_TERMS).where(tenants.c.next_seq > value("after_seq")).order_by(tenants.c.tenant_id),
)
MARK_CHANGED = Query(
    "Records the number of the first event after a tenant's change.",
    update(tenants).values(next_seq=value("first_seq")).where(_IS_THIS),
)
ADD = Query("Adds a tenant that has admitted nothing.", insert(tenants), [
    "tenant_id", "weight", *(f"{name}_limit" for name in _DIMENSIONS), "version",
])  # fmt: skip
REWRITE = Query(
    "Changes weight and limits unless somebody else did so first.",
    update(tenants)
    .values(
        {"weight": value("new_weight"), "version": tenants.c.version + constant(1)}
        | {f"{name}_limit": value(name) for name in _DIMENSIONS}
    )
    .where(_IS_THIS, tenants.c.version == value("seen_version")),
)
CHARGE = Query(
    "Admits work in one tenant if every limit allows it: the row count decides.",
    update(tenants)
    .values({f"{name}_used": tenants.c[f"{name}_used"] + value(name) for name in _DIMENSIONS})
    .where(_IS_THIS, *(_has_room(name) for name in _DIMENSIONS)),
)
RELEASE = Query(
    "Gives back what work that is over had been admitted for.",
    update(tenants)
    .values({f"{name}_used": tenants.c[f"{name}_used"] - value(name) for name in _DIMENSIONS})
    .where(_IS_THIS),
)


def every(session: Session) -> list[Tenant]:
    return [_tenant(row) for row in session.rows(ALL)]


def terms(session: Session) -> list[Tenant]:
    return [_without_use(row) for row in session.rows(TERMS)]


def changed_terms(session: Session, after_seq: int) -> list[Tenant]:
    return [_without_use(row) for row in session.rows(CHANGED_TERMS, after_seq=after_seq)]


def one(session: Session, tenant_id: str) -> Tenant | None:
    row = session.row(ONE, tenant=tenant_id)
    return None if row is None else _tenant(row)


def create(session: Session, tenant: Tenant) -> Tenant:
    if tenant.parent_id is not None and one(session, tenant.parent_id) is None:
        raise UnknownTenantError(tenant.parent_id)
    if one(session, tenant.tenant_id) is not None:
        raise TenantExistsError(f"there is a tenant {tenant.tenant_id!r} already")
    limits = {f"{name}_limit": getattr(tenant.limits, name) for name in _DIMENSIONS}
    session.change(ADD, tenant_id=tenant.tenant_id, weight=tenant.weight, version=1, **limits)
    _mark_changed(session, tenant.tenant_id)
    return Tenant(tenant.tenant_id, tenant.weight, tenant.limits)


def rewrite(
    session: Session, tenant_id: str, weight: int | None, limits: Limits | None, if_version: int | None
) -> Tenant:
    session.hold(HOLD, [{"tenant": tenant_id}])
    now = one(session, tenant_id)
    if now is None:
        raise UnknownTenantError(tenant_id)
    if if_version is not None and if_version != now.version:
        raise StaleVersionError(now.version)
    new_limits = now.limits if limits is None else limits
    new_weight = now.weight if weight is None else weight
    taken = session.change(
        REWRITE,
        tenant=tenant_id,
        seen_version=now.version,
        new_weight=new_weight,
        **{name: getattr(new_limits, name) for name in _DIMENSIONS},
    )
    if not taken:
        raise StaleVersionError(now.version + 1)
    _mark_changed(session, tenant_id)
    return Tenant(tenant_id, new_weight, new_limits, now.used, now.version + 1)


def _mark_changed(session: Session, tenant_id: str) -> None:
    """Taking no numbers still holds the row that gives them out, so that no event can slip in between. The
    tenant's row is held before it, as a submission does."""
    _, first_seq = cluster.reserve(session, 0, 0)
    session.change(MARK_CHANGED, tenant=tenant_id, first_seq=first_seq)


def charge(session: Session, demand: Mapping[str, Amounts]) -> None:
    """Charges each tenant; raises for the first, in the order given, that refuses (the caller rolls back)."""
    charged = session.change_each(CHARGE, _held(session, demand))
    for (tenant_id, asked), done in zip(demand.items(), charged, strict=True):
        if done:
            continue
        tenant = one(session, tenant_id)
        if tenant is None:
            raise UnknownTenantError(tenant_id)
        dimension = tenant.limits.exceeded_by(tenant.used.plus(asked))
        assert dimension is not None
        raise QuotaExceededError(tenant, dimension, asked)


def release(session: Session, demand: Mapping[str, Amounts]) -> None:
    if demand:
        session.change_each(RELEASE, _held(session, demand))


def _held(session: Session, demand: Mapping[str, Amounts]) -> list[Values]:
    """The values for each tenant, after all of them were locked, root before leaf."""
    session.hold(HOLD, [{"tenant": tenant_id} for tenant_id in demand])
    return [_values(tenant_id, amounts) for tenant_id, amounts in demand.items()]


def _values(tenant_id: str, amounts: Amounts) -> Values:
    return {
        "tenant": tenant_id,
        "cpu_milli": amounts.cpu_milli,
        "memory_mib": amounts.memory_mib,
        "disk_mib": amounts.disk_mib,
        "gpu_milli": amounts.gpu_milli,
    }


def _without_use(row: Row) -> Tenant:
    return Tenant(row[0], row[1], Limits(*row[2:6]), version=row[6])


def _tenant(row: Row) -> Tenant:
    return Tenant(row[0], row[1], Limits(*row[2:6]), Amounts(*row[6:10]), row[10])
