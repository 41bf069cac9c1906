"""Who shares the machines: tenants in a tree, each with a weight, a quota and terms for its jobs."""

import re
from dataclasses import dataclass, field

from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Amounts, JobLimits, JobUse, Limits, OverQuota, Period

TENANT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}(/[a-z0-9][a-z0-9_-]{0,62}){0,7}")
GRAMMAR = (
    "up to 8 names joined by slashes, each of up to 63 of a-z, 0-9, _ and -, and beginning with a letter "
    "or a digit, such as org/team"
)
"""The same in words."""
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for a tenant's jobs; `None`: as its tier says, else as its parent's terms do."""

    tier: str | None = None
    """A named set of terms from the settings."""
    default_class: PriorityClass | None = None
    classes: frozenset[PriorityClass] | None = None
    """Those that its jobs may be of."""
    default_limit_s: int | None = None
    """The time limit of a job that does not say."""
    most_limit_s: int | None = None
    """The longest time limit; a job must have one."""
    over_quota: OverQuota | None = None
    may_burst: bool | None = None
    """Whether classes that may burst do so here."""
    archived: bool = False
    """It, and everybody below it, takes no new jobs; what there is goes on."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a tenant means to spend in a period: nothing is stopped by it, but somebody is told."""

    gpu_ms: int
    """Thousandths of a GPU times seconds."""
    period: Period = Period.MONTH


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node of the tree `org/team/person`; the parent is the part before the last slash."""

    tenant_id: str
    weight: int = 1
    limits: Limits = field(default_factory=Limits)
    used: Amounts = field(default_factory=Amounts)
    """Charged to the quota, by it and everybody below it. `named` only where there is such a limit."""
    version: int = 1
    job_limits: JobLimits = field(default_factory=JobLimits)
    job_use: JobUse = field(default_factory=JobUse)
    burst: Amounts = field(default_factory=Amounts)
    """Charged to the burst."""
    terms: Terms = field(default_factory=Terms)
    budget: Budget | None = None

    @property
    def parent_id(self) -> str | None:
        return parent_of(self.tenant_id)


def parent_of(tenant_id: str) -> str | None:
    head, slash, _ = tenant_id.rpartition("/")
    return head if slash else None


def lineage(tenant_id: str) -> tuple[str, ...]:
    """Root first: `a/b/c` → (`a`, `a/b`, `a/b/c`)."""
    parts = tenant_id.split("/")
    return tuple("/".join(parts[: depth + 1]) for depth in range(len(parts)))


def is_within(tenant_id: str, top_id: str) -> bool:
    """Whether it is `top_id` or below it."""
    return tenant_id == top_id or tenant_id.startswith(f"{top_id}/")
