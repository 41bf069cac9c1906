"""What somebody may do where: the most that settings, memberships and rules give, narrowed by a token."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tgpu.domain.access import EVERYWHERE, Action, Role
from tgpu.domain.tenant import is_within, lineage, parent_of
from tgpu.store.access_port import Token


@dataclass(frozen=True, slots=True)
class Scope:
    """What a token is good for."""

    role: Role
    tenant_id: str | None = None
    """Only there, and below it."""
    actions: frozenset[Action] = frozenset()
    """Only these; empty: all that the role allows."""

    @classmethod
    def of(cls, token: Token) -> "Scope":
        by_word = {role.word: role for role in Role}
        return cls(by_word.get(token.role, Role.VIEWER), token.tenant_id, token.actions)


@dataclass(frozen=True, slots=True)
class Rights:
    """Of one user now. Every answer counts what their token leaves of it."""

    everywhere: Role | None = None
    """By the settings."""
    members: Mapping[str, Role] = field(default_factory=dict)
    """By tenant, or `EVERYWHERE`: a role holds for everybody below, too."""
    home: str | None = None
    """By the rules: they may use this tenant, not those below it, and see no more of it than others do."""
    scope: Scope | None = None

    def role_in(self, tenant_id: str) -> Role | None:
        given = [Role.USER] if tenant_id == self.home else []
        return self._narrowed(tenant_id, [*given, *self._explicit(tenant_id)])

    def member_role_in(self, tenant_id: str) -> Role | None:
        """Without what the rules give: what opens others' jobs."""
        return self._narrowed(tenant_id, self._explicit(tenant_id))

    def role_above(self, tenant_id: str) -> Role | None:
        """In its parent, or, if it has none, everywhere."""
        parent = parent_of(tenant_id)
        return self.role_everywhere if parent is None else self.member_role_in(parent)

    @property
    def role_everywhere(self) -> Role | None:
        if self.scope is not None and self.scope.tenant_id is not None:
            return None
        return self._capped(max(self._of_all(), default=None))

    @property
    def highest(self) -> Role | None:
        """In whichever tenant it is."""
        within = self.scope.tenant_id if self.scope is not None else None
        if within is not None:
            below = [role for name, role in self.members.items() if is_within(name, within)]
            home = [Role.USER] if self.home is not None and is_within(self.home, within) else []
            return self._capped(max([*below, *home, *self._explicit(within)], default=None))
        home = [] if self.home is None else [Role.USER]
        return self._capped(max([*self.members.values(), *home, *self._of_all()], default=None))

    @property
    def home_role(self) -> Role | None:
        """What the rules give them in their home."""
        return None if self.home is None else self._narrowed(self.home, [Role.USER])

    @property
    def held(self) -> list[tuple[str, Role]]:
        """Where they have a role of their own or by the rules, and which; not those everywhere."""
        names = {*self.members, *([] if self.home is None else [self.home])} - {EVERYWHERE}
        found = [(name, self.role_in(name)) for name in sorted(names)]
        return [(name, role) for name, role in found if role is not None]

    def reaches(self, tenant_id: str) -> bool:
        """Whether their token is good there at all."""
        scope = self.scope
        return scope is None or scope.tenant_id is None or is_within(tenant_id, scope.tenant_id)

    def may(self, action: Action) -> bool:
        return self.scope is None or not self.scope.actions or action in self.scope.actions

    def _of_all(self) -> list[Role]:
        found = [] if self.everywhere is None else [self.everywhere]
        return [*found, self.members[EVERYWHERE]] if EVERYWHERE in self.members else found

    def _explicit(self, tenant_id: str) -> list[Role]:
        found = self._of_all()
        if self.members:
            found += [self.members[name] for name in lineage(tenant_id) if name in self.members]
        return found

    def _narrowed(self, tenant_id: str, roles: Iterable[Role]) -> Role | None:
        return self._capped(max(roles, default=None)) if self.reaches(tenant_id) else None

    def _capped(self, role: Role | None) -> Role | None:
        return role if role is None or self.scope is None else min(role, self.scope.role)


def managers_of(tenant_id: str) -> str:
    """The roles that may change its policy and limits, in words."""
    parent = parent_of(tenant_id)
    return "an administrator" if parent is None else f"an operator of {parent} or an administrator"


def at_least(role: Role | None, needed: Role) -> bool:
    return role is not None and role >= needed
