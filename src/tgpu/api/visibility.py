"""Visibility: which jobs a caller may know of, as a value by which answers can be shared."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which jobs a caller may know of. Callers of equal visibility can share an answer."""

    everyone: bool
    user: str | None = None
    """Of whom all jobs are seen, wherever they are."""
    tenants: frozenset[str] = frozenset()
    """Whose jobs are seen."""
    shown: frozenset[str] = frozenset()
    """Of which the caller may know that they are there."""

    def sees(self, owner: str, tenant_id: str) -> bool:
        return self.everyone or owner == self.user or tenant_id in self.tenants

    def knows(self, tenants: Collection[str]) -> bool:
        return self.everyone or self.shown.issuperset(tenants)


EVERYONE = Visibility(everyone=True)
NO_ONE = Visibility(everyone=False)
