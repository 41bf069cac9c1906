"""Who shares the machines: tenants in a tree, each with a weight and a quota."""

import re
from dataclasses import dataclass, field

TENANT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}(/[a-z0-9][a-z0-9_-]{0,62}){0,7}")
DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Amounts:
    """The four dimensions that a quota counts, in exact units."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    gpu_milli: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(
            self.cpu_milli + other.cpu_milli,
            self.memory_mib + other.memory_mib,
            self.disk_mib + other.disk_mib,
            self.gpu_milli + other.gpu_milli,
        )

    def minus(self, other: "Amounts") -> "Amounts":
        return self.plus(Amounts(-other.cpu_milli, -other.memory_mib, -other.disk_mib, -other.gpu_milli))


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be admitted at once; `None` is without limit."""

    cpu_milli: int | None = None
    memory_mib: int | None = None
    disk_mib: int | None = None
    gpu_milli: int | None = None

    def exceeded_by(self, used: Amounts) -> str | None:
        """The first dimension in which `used` is too much, if any."""
        for name in ("cpu_milli", "memory_mib", "disk_mib", "gpu_milli"):
            limit = getattr(self, name)
            if limit is not None and getattr(used, name) > limit:
                return name
        return None


@dataclass(frozen=True, slots=True)
class Tenant:
    """A node of the tree `org/team/person`; the parent is the part before the last slash."""

    tenant_id: str
    weight: int = 1
    limits: Limits = field(default_factory=Limits)
    used: Amounts = field(default_factory=Amounts)
    version: int = 1

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
