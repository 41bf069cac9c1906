"""Which jobs somebody wants to see, and may."""

from dataclasses import dataclass

from tgpu.domain.lifecycle import Status
from tgpu.store.ran import Ran


@dataclass(frozen=True, slots=True)
class Seen:
    """Whose jobs somebody may know of."""

    user: str | None
    """Their own, wherever those are; None: only those of the tenants."""
    tenants: frozenset[str]
    """Of each of these, and not of others below it."""

    def has(self, user: str, tenant_id: str) -> bool:
        return user == self.user or tenant_id in self.tenants


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; an empty field does not filter."""

    statuses: frozenset[Status] = frozenset()
    users: frozenset[str] = frozenset()
    tenant_id: str | None = None
    name_contains: str | None = None
    id_ranges: tuple[tuple[int, int], ...] = ()
    """Inclusive ranges; any of them may match."""
    submitted_from_ms: int | None = None
    submitted_until_ms: int | None = None
    ended_from_ms: int | None = None
    seen: Seen | None = None
    within: str | None = None
    """Of this tenant, and of everybody below it."""
    ran: Ran | None = None


@dataclass(frozen=True, slots=True)
class Paging:
    """Newest first unless `oldest_first`; `cursor` is the last job id already seen."""

    limit: int = 100
    cursor: int | None = None
    oldest_first: bool = False
