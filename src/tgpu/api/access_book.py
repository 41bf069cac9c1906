"""Every tenant's terms and every member in memory, so that no request waits for the database to know them.

What this server changes itself is read again before the change is answered. What another server changes is
read again when the store wakes this one: within a moment, and never so often that it takes more than a small
part of the time.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from time import monotonic

from tgpu.api.roles import Rights, Scope
from tgpu.api.term_sources import Sources, sources
from tgpu.api.terms import Effective, effective
from tgpu.config.settings import Settings
from tgpu.config.tiers import TierSettings
from tgpu.domain.access import Role
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Tenant, lineage
from tgpu.domain.tenant_rules import TenantRule, asks_for_groups, home_of, tenant_rules
from tgpu.store.access_port import AccessBook
from tgpu.store.port import Store, StoreUnavailableError

_PAUSE_S = 0.1
_SHARE = 0.05
"""Of its time, the most that is spent on reading the book again."""


class Pages:
    """The book as of one moment; nothing in it changes."""

    def __init__(
        self, book: AccessBook, tiers: Mapping[str, TierSettings], user_classes: Collection[PriorityClass]
    ) -> None:
        self.tenants: dict[str, Tenant] = {tenant.tenant_id: tenant for tenant in book.tenants}
        self.members: dict[str, dict[str, Role]] = {}
        for member in book.members:
            self.members.setdefault(member.user, {})[member.tenant_id] = member.role
        self.tiers = tiers
        self._user_classes = user_classes
        self._effective: dict[str, Effective] = {}

    def effective_terms(self, tenant_id: str) -> Effective:
        """Of a tenant that there is, or of one that is yet to be made below those there are."""
        found = self._effective.get(tenant_id)
        if found is None:
            found = self._effective[tenant_id] = self._put_together(self._line(tenant_id))
        return found

    def effective_of(self, tenant: Tenant) -> Effective:
        """As if the tenant were like this."""
        above = [self.tenants[name] for name in lineage(tenant.tenant_id)[:-1] if name in self.tenants]
        return self._put_together([*above, tenant])

    def sources_of(self, tenant_id: str) -> Sources:
        """Who says what is effective."""
        return sources(self._line(tenant_id), self.tiers, self.effective_terms(tenant_id))

    def _put_together(self, line: Sequence[Tenant]) -> Effective:
        return effective(line, self.tiers, self._user_classes)

    def _line(self, tenant_id: str) -> list[Tenant]:
        return [self.tenants[name] for name in lineage(tenant_id) if name in self.tenants]


class Book:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._tiers = {tier.name: tier for tier in settings.tiers}
        self._user_classes = tuple(PriorityClass(name) for name in settings.user_classes)
        self._rules = tenant_rules("tenant_rules", settings.tenant_rules)
        self._pages: Pages | None = None
        self._reading = asyncio.Lock()
        self._changed = False
        self._following: asyncio.Task[None] | None = None
        self.needs_groups = asks_for_groups(self._rules)
        """Whether somebody's home depends on their Unix groups."""
        if settings.store:  # else nobody but this server changes it
            store.subscribe(self.store_changed)

    async def pages(self) -> Pages:
        """As far as this server knows."""
        if self._pages is None:
            await self._read()
        assert self._pages is not None
        return self._pages

    async def fresh_pages(self) -> Pages:
        """As they are now: after a change that this server made, or where something is missing."""
        await self._read()
        return await self.pages()

    def store_changed(self) -> None:
        """Called on the event loop."""
        self._changed = True
        if self._pages is not None and (self._following is None or self._following.done()):
            self._following = asyncio.get_running_loop().create_task(self._follow())

    def home_of(self, user: str, groups: Collection[str]) -> str | None:
        return home_of(self._rules, user, groups)

    def rights(
        self, pages: Pages, user: str, groups: Collection[str], *, is_admin: bool, scope: Scope | None
    ) -> Rights:
        """`is_admin`: by the settings."""
        return Rights(
            everywhere=Role.ADMIN if is_admin else None,
            members=pages.members.get(user, {}),
            home=self.home_of(user, groups),
            scope=scope,
        )

    def rules_into(self, tenant_id: str) -> list[TenantRule]:
        """Those that give somebody this tenant, or one below it."""
        return [rule for rule in self._rules if rule.points_into(tenant_id)]

    def rules_without_tenant(self, pages: Pages) -> list[TenantRule]:
        """Those whose tenant, as far as it is the same for everybody, there is not."""
        return [rule for rule in self._rules if rule.certain_id and rule.certain_id not in pages.tenants]

    async def _read(self) -> None:
        async with self._reading:
            self._pages = Pages(await self._store.access_book(), self._tiers, self._user_classes)

    async def _follow(self) -> None:
        pause_s = _PAUSE_S
        while self._changed:
            await asyncio.sleep(pause_s)
            self._changed = False
            began = monotonic()
            with suppress(StoreUnavailableError):  # it wakes us once more when it is back
                await self._read()
            pause_s = max(_PAUSE_S, (monotonic() - began) / _SHARE)
