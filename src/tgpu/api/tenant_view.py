"""Tenants as callers see them: what they say, what holds, and from whom."""

from collections.abc import Mapping, Sequence

import msgspec

from tgpu.api.access_book import Pages
from tgpu.api.edge import gpu_hours, optional_gpu_hours
from tgpu.api.endpoint import Call
from tgpu.api.quota_form import QuotaOut, quota_out
from tgpu.api.term_sources import Sources
from tgpu.api.terms import Effective, in_order
from tgpu.domain.periods import period_from_ms
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import OverQuota, Period
from tgpu.domain.tenant import Tenant


class EffectiveOut(msgspec.Struct, kw_only=True):
    """What holds for its jobs once its tier and all above it have had their say."""

    default_class: PriorityClass
    classes: list[PriorityClass]
    """What ordinary users may give their jobs."""
    default_time_limit_s: int | None
    max_time_limit_s: int | None
    over_quota: OverQuota
    may_burst: bool
    archived: bool


class EffectiveFrom(msgspec.Struct, kw_only=True):
    """Who says each of them: `own`, `tier NAME`, `parent NAME`, or `default` if nobody does."""

    default_class: str
    classes: str
    default_time_limit_s: str
    max_time_limit_s: str
    over_quota: str
    may_burst: str
    archived: str


class TenantOut(msgspec.Struct, kw_only=True):
    """One of those who share the machines; a null term is its tier's or its parent's to say."""

    tenant_id: str
    parent_id: str | None
    weight: int
    tier: str | None
    default_class: PriorityClass | None
    classes: list[PriorityClass] | None
    default_time_limit_s: int | None
    max_time_limit_s: int | None
    over_quota: OverQuota | None
    may_burst: bool | None
    archived: bool
    budget_gpu_hours: int | float | None
    budget_period: Period
    budget_used_gpu_hours: int | float | None
    """In the period that lasts now; null without a budget."""
    version: int
    effective: EffectiveOut
    effective_from: EffectiveFrom
    quota: QuotaOut


async def tenants_out(call: Call, tenants: Sequence[Tenant]) -> list[TenantOut]:
    pages, now_ms = await call.book.pages(), call.services.now_ms()
    since = {t.tenant_id: period_from_ms(t.budget.period, now_ms) for t in tenants if t.budget is not None}
    spent = await call.services.store.gpu_ms_since(since, now_ms) if since else {}
    reserved = await call.services.store.reserved_gpu_ms()
    return [_tenant_out(tenant, pages, spent.get(tenant.tenant_id, 0), reserved) for tenant in tenants]


def _tenant_out(tenant: Tenant, pages: Pages, spent: int, reserved: Mapping[str, int]) -> TenantOut:
    terms, budget = tenant.terms, tenant.budget
    sources = pages.sources_of(tenant.tenant_id)
    return TenantOut(
        tenant_id=tenant.tenant_id,
        parent_id=tenant.parent_id,
        weight=tenant.weight,
        tier=terms.tier,
        default_class=terms.default_class,
        classes=None if terms.classes is None else in_order(terms.classes),
        default_time_limit_s=terms.default_limit_s,
        max_time_limit_s=terms.most_limit_s,
        over_quota=terms.over_quota,
        may_burst=terms.may_burst,
        archived=terms.archived,
        budget_gpu_hours=optional_gpu_hours(budget.gpu_ms if budget else None),
        budget_period=budget.period if budget else Period.MONTH,
        budget_used_gpu_hours=gpu_hours(spent) if budget else None,
        version=tenant.version,
        effective=_effective_out(pages.effective_terms(tenant.tenant_id)),
        effective_from=_effective_from(sources),
        quota=quota_out(tenant, reserved),
    )


def _effective_out(terms: Effective) -> EffectiveOut:
    return EffectiveOut(
        default_class=terms.default_class,
        classes=in_order(terms.user_classes),
        default_time_limit_s=terms.default_limit_s,
        max_time_limit_s=terms.most_limit_s,
        over_quota=terms.over_quota,
        may_burst=terms.may_burst,
        archived=terms.archived,
    )


def _effective_from(sources: Sources) -> EffectiveFrom:
    return EffectiveFrom(
        default_class=sources.default_class,
        classes=sources.classes,
        default_time_limit_s=sources.default_limit_s,
        max_time_limit_s=sources.most_limit_s,
        over_quota=sources.over_quota,
        may_burst=sources.may_burst,
        archived=sources.archived,
    )
