"""Tenants as callers write and see them."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tgpu.api.access_book import Pages
from tgpu.api.edge import optional_gpu_hours
from tgpu.api.problems import unprocessable
from tgpu.api.quota_form import (
    Cpus,
    Disk,
    Generic,
    GpuHours,
    Gpus,
    GpusOfType,
    HoursPeriod,
    Memory,
    Number,
    QuotaOut,
    QuotaPatch,
    Running,
    Waiting,
    gpu_ms_of,
    quota_out,
)
from tgpu.api.terms import ALL_CLASSES, Effective, in_order
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import MAX_SECONDS, BadQuantityError, whole
from tgpu.domain.quota import OverQuota, Period
from tgpu.domain.tenant import TENANT_ID, Budget, Tenant, Terms, parent_of

MAX_WEIGHT = 1_000_000
RESERVED = frozenset({"quota", "members", "move"})  # `/tenants/a/quota` is the quota of `a`

Weight = Annotated[
    int,
    Meta(
        description="How much of the whole is its due, beside its siblings.",
        extra_json_schema={"minimum": 1, "maximum": MAX_WEIGHT},
    ),
]
Tier = Annotated[str | None, Meta(description="A named set of terms from the server's settings.")]
Class = Annotated[
    PriorityClass | None, Meta(description="Of jobs that do not say; null: as its tier or its parent says.")
]
Classes = Annotated[
    list[PriorityClass] | None,
    Meta(
        description="The classes that its jobs may be of, out of its parent's; null: all of those.",
        extra_json_schema={"minItems": 1},
    ),
]
DefaultLimit = Annotated[
    Number | None,
    Meta(
        description="Time limit in seconds of jobs that do not say; null: as its tier or its parent says.",
        extra_json_schema={"minimum": 1, "maximum": MAX_SECONDS},
    ),
]
MostLimit = Annotated[
    Number | None,
    Meta(
        description="The longest time limit in seconds; if there is one, every job must have a limit.",
        extra_json_schema={"minimum": 1, "maximum": MAX_SECONDS},
    ),
]
Over = Annotated[
    OverQuota | None,
    Meta(description="Whether jobs beyond the quota are refused, or held until it has room."),
]
MayBurst = Annotated[
    bool | None, Meta(description="Whether low jobs may use up to half as much again while nobody else can.")
]
Archived = Annotated[bool, Meta(description="It takes no new jobs, nor does anybody below it.")]
BudgetPeriod = Annotated[Period, Meta(description="What the budget is for.")]


class TenantPatch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to change; null takes a term away, what is left out stays. Limits have a path of their own."""

    weight: Weight | UnsetType = UNSET
    tier: Tier | UnsetType = UNSET
    default_class: Class | UnsetType = UNSET
    classes: Classes | UnsetType = UNSET
    default_time_limit_s: DefaultLimit | UnsetType = UNSET
    max_time_limit_s: MostLimit | UnsetType = UNSET
    over_quota: Over | UnsetType = UNSET
    may_burst: MayBurst | UnsetType = UNSET
    archived: Archived | UnsetType = UNSET
    budget_gpu_hours: GpuHours | UnsetType = UNSET
    budget_period: BudgetPeriod | UnsetType = UNSET


class TenantAsked(TenantPatch, kw_only=True):
    """A new tenant, with its limits; its parent, the part before the last slash, must exist."""

    tenant_id: Annotated[
        str, Meta(description="Such as org/team.", extra_json_schema={"pattern": f"^{TENANT_ID.pattern}$"})
    ]
    cpu_limit: Cpus | UnsetType = UNSET
    mem_limit_mb: Memory | UnsetType = UNSET
    disk_limit_mb: Disk | UnsetType = UNSET
    gpu_limit: Gpus | UnsetType = UNSET
    gpu_type_limits: GpusOfType | UnsetType = UNSET
    generic_limits: Generic | UnsetType = UNSET
    running_jobs_limit: Running | UnsetType = UNSET
    waiting_jobs_limit: Waiting | UnsetType = UNSET
    gpu_hours_limit: GpuHours | UnsetType = UNSET
    gpu_hours_period: HoursPeriod | UnsetType = UNSET

    @property
    def quota(self) -> QuotaPatch:
        return QuotaPatch(**{name: getattr(self, name) for name in QuotaPatch.__struct_fields__})


class EffectiveOut(msgspec.Struct, kw_only=True):
    """What holds for its jobs once its tier and all above it have had their say."""

    default_class: PriorityClass
    classes: list[PriorityClass]
    default_time_limit_s: int | None
    max_time_limit_s: int | None
    over_quota: OverQuota
    may_burst: bool
    archived: bool


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
    version: int
    effective: EffectiveOut
    quota: QuotaOut


def checked_id(field: str, tenant_id: str) -> str:
    if not TENANT_ID.fullmatch(tenant_id):
        raise unprocessable(
            field,
            f"{field} must be up to 8 names joined by slashes, each of a-z, 0-9, _ and -, such as org/team; "
            f"got {tenant_id[:80]!r}",
        )
    for level in tenant_id.split("/"):
        if level in RESERVED:
            raise unprocessable(field, f"{field} must not contain the name {level!r}: that is taken")
    return tenant_id


def tenant_after(patch: TenantPatch, old: Tenant, pages: Pages) -> Tenant:
    """Raises ProblemError."""
    return replace(
        old,
        weight=old.weight if patch.weight is UNSET else _weight(patch.weight),
        terms=_terms(patch, old, pages),
        budget=_budget(patch, old.budget),
    )


def _weight(weight: int) -> int:
    if not 1 <= weight <= MAX_WEIGHT:
        raise unprocessable("weight", f"weight must be from 1 to {MAX_WEIGHT}; got {weight}")
    return weight


def _terms(patch: TenantPatch, old: Tenant, pages: Pages) -> Terms:
    terms = old.terms
    if patch.tier is not UNSET:
        terms = replace(terms, tier=_tier(patch.tier, pages))
    if patch.classes is not UNSET:
        terms = replace(terms, classes=_classes(patch.classes, old.tenant_id, pages))
    if patch.default_class is not UNSET:
        terms = replace(terms, default_class=patch.default_class)
    if patch.default_time_limit_s is not UNSET:
        limit_s = _seconds("default_time_limit_s", patch.default_time_limit_s)
        terms = replace(terms, default_limit_s=limit_s)
    if patch.max_time_limit_s is not UNSET:
        terms = replace(terms, most_limit_s=_seconds("max_time_limit_s", patch.max_time_limit_s))
    if patch.over_quota is not UNSET:
        terms = replace(terms, over_quota=patch.over_quota)
    if patch.may_burst is not UNSET:
        terms = replace(terms, may_burst=patch.may_burst)
    if patch.archived is not UNSET:
        terms = replace(terms, archived=patch.archived)
    _check_together(terms)
    return terms


def _check_together(terms: Terms) -> None:
    if terms.classes is not None and terms.default_class not in (None, *terms.classes):
        raise unprocessable(
            "default_class",
            f"default_class must be one of {_in_words(terms.classes)}; got {terms.default_class}",
        )
    default_s, most_s = terms.default_limit_s, terms.most_limit_s
    if default_s is not None and most_s is not None and default_s > most_s:
        raise unprocessable(
            "default_time_limit_s",
            f"default_time_limit_s must be at most max_time_limit_s, which is {most_s}; got {default_s}",
        )


def _tier(tier: str | None, pages: Pages) -> str | None:
    if tier is None or tier in pages.tiers:
        return tier
    known = ", ".join(sorted(pages.tiers)) or "none"
    raise unprocessable(
        "tier", f"tier: there is no tier {tier[:80]!r} in the server's settings; there is: {known}"
    )


def _classes(
    classes: list[PriorityClass] | None, tenant_id: str, pages: Pages
) -> frozenset[PriorityClass] | None:
    if classes is None:
        return None
    if not classes:
        raise unprocessable("classes", "classes must have at least one class; null: all that its parent has")
    parent = parent_of(tenant_id)
    allowed = ALL_CLASSES if parent is None else pages.effective_terms(parent).classes
    beyond = frozenset(classes) - allowed
    if beyond:
        raise unprocessable(
            "classes", f"classes: {parent} may use only {_in_words(allowed)}; got {_in_words(beyond)}"
        )
    return frozenset(classes)


def _seconds(name: str, value: float | None) -> int | None:
    if value is None:
        return None
    try:
        found = whole(name, value, MAX_SECONDS)
    except BadQuantityError as error:
        raise unprocessable(name, str(error)) from None
    if found < 1:
        raise unprocessable(name, f"{name} must be at least 1; got {value}")
    return found


def _budget(patch: TenantPatch, old: Budget | None) -> Budget | None:
    period = patch.budget_period if patch.budget_period is not UNSET else None
    if patch.budget_gpu_hours is UNSET:
        return old if old is None or period is None else replace(old, period=period)
    gpu_ms = gpu_ms_of("budget_gpu_hours", patch.budget_gpu_hours)
    if gpu_ms is None:
        return None
    if gpu_ms == 0:
        raise unprocessable("budget_gpu_hours", "budget_gpu_hours must be more than 0; null: no budget")
    return Budget(gpu_ms, period or (old.period if old else Period.MONTH))


def _in_words(classes: frozenset[PriorityClass]) -> str:
    return ", ".join(in_order(classes)) or "none"


def tenant_out(tenant: Tenant, pages: Pages) -> TenantOut:
    terms, budget = tenant.terms, tenant.budget
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
        version=tenant.version,
        effective=_effective_out(pages.effective_terms(tenant.tenant_id)),
        quota=quota_out(tenant),
    )


def _effective_out(terms: Effective) -> EffectiveOut:
    return EffectiveOut(
        default_class=terms.default_class,
        classes=in_order(terms.classes),
        default_time_limit_s=terms.default_limit_s,
        max_time_limit_s=terms.most_limit_s,
        over_quota=terms.over_quota,
        may_burst=terms.may_burst,
        archived=terms.archived,
    )
