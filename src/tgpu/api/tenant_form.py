"""Tenants as callers write them."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tgpu.api.access_book import Pages
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
    QuotaPatch,
    Running,
    Waiting,
    gpu_ms_of,
)
from tgpu.api.terms import ALL_CLASSES, in_order
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import MAX_SECONDS, BadQuantityError, time_in_words, whole
from tgpu.domain.quota import OverQuota, Period
from tgpu.domain.tenant import GRAMMAR, TENANT_ID, Budget, Tenant, Terms, parent_of

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
        description="The classes that its jobs may be of, out of its parent's. Null: as its parent says; if "
        "no tenant above it says so either, those of the setting user_classes, and every class for "
        "operators and administrators.",
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
    bool | None, Meta(description="Whether low jobs may use half as much beside it while nobody else can.")
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


def checked_id(field: str, tenant_id: str) -> str:
    if not TENANT_ID.fullmatch(tenant_id):
        raise unprocessable(
            field,
            f"{field} must be {GRAMMAR} ({', '.join(sorted(RESERVED))} are reserved); got {tenant_id[:80]!r}",
        )
    for level in tenant_id.split("/"):
        if level in RESERVED:
            reserved = ", ".join(sorted(RESERVED))
            raise unprocessable(
                field, f"{field} must not contain the name {level!r}: {reserved} are reserved; choose another"
            )
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
    _check_together(patch, replace(old, terms=terms), pages)
    return terms


def _check_together(patch: TenantPatch, tenant: Tenant, pages: Pages) -> None:
    """Terms that would hold for nobody are refused, but not for what somebody above has changed since."""
    terms, holds = tenant.terms, pages.effective_of(tenant)
    says_class = any(each is not UNSET for each in (patch.default_class, patch.classes, patch.tier))
    if says_class and terms.default_class not in (None, *holds.user_classes):
        raise unprocessable(
            "default_class",
            f"default_class must be one of {_in_words(holds.user_classes)}, the classes of "
            f"{tenant.tenant_id}; got {terms.default_class}",
        )
    parent = parent_of(tenant.tenant_id)
    above_s = None if parent is None else pages.effective_terms(parent).most_limit_s
    most_s = None if patch.max_time_limit_s is UNSET else terms.most_limit_s
    if above_s is not None and most_s is not None and most_s > above_s:
        raise unprocessable(
            "max_time_limit_s",
            f"max_time_limit_s may be at most {time_in_words(above_s)}, as {parent} has it; got "
            f"{time_in_words(most_s)}",
        )
    says_limit = any(
        each is not UNSET for each in (patch.default_time_limit_s, patch.max_time_limit_s, patch.tier)
    )
    default_s, most_s = terms.default_limit_s, holds.most_limit_s
    if says_limit and default_s is not None and most_s is not None and default_s > most_s:
        raise unprocessable(
            "default_time_limit_s",
            f"default_time_limit_s may be at most {time_in_words(most_s)}, the longest time limit of "
            f"{tenant.tenant_id}; got {time_in_words(default_s)}",
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
