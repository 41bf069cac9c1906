"""Tenants and who may do what, in a memory store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tgpu.domain.access import EVERYWHERE, Actor, AuditEntry, Member
from tgpu.domain.ids import AttemptId
from tgpu.domain.tenant import Tenant, is_within
from tgpu.store import audit_words
from tgpu.store.access_port import (
    AccessBook,
    AttemptHolder,
    AuditFilter,
    NoSuchMemberError,
    Token,
    TokenRevokedError,
)
from tgpu.store.memory_state import State
from tgpu.store.memory_tree import Tree
from tgpu.store.port import DeposedError, UnknownTenantError

T = TypeVar("T")


@dataclass(slots=True)
class AccessState:
    members: dict[tuple[str, str], Member] = field(default_factory=dict)
    """By user and tenant."""
    secrets: dict[tuple[str, str], tuple[bytes, int]] = field(default_factory=dict)
    """By user and name: what it says, and when it was set."""
    audit: list[AuditEntry] = field(default_factory=list)

    def write(self, actor: Actor, at_ms: int, change: audit_words.Change) -> None:
        self.audit.append(AuditEntry(len(self.audit) + 1, at_ms, actor, *change))


class MemoryAccess(ABC):
    def __init__(self, state: State) -> None:
        self._state = state
        self._access = AccessState()
        self._tree = Tree(state, self._access.members, self._access.audit)

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        """The effect, with a moment for others before and after it."""

    async def access_book(self) -> AccessBook:
        return await self._once(lambda: AccessBook(self._state.terms(), self._all_members()))

    async def tenants(self) -> list[Tenant]:
        return await self._once(lambda: [tenant for _, tenant in sorted(self._state.tenants.items())])

    async def tenant(self, tenant_id: str) -> Tenant | None:
        return await self._once(lambda: self._state.tenants.get(tenant_id))

    async def create_tenant(
        self, tenant: Tenant, actor: Actor, at_ms: int, *, take_over: bool = False
    ) -> Tenant:
        def create() -> Tenant:
            made, took_over = self._tree.create(tenant, at_ms, take_over=take_over)
            self._access.write(actor, at_ms, audit_words.tenant_created(made, took_over=took_over))
            return made

        return await self._once(create, wakes=True)

    async def update_tenant(
        self,
        tenant_id: str,
        change: Callable[[Tenant], Tenant],
        actor: Actor,
        at_ms: int,
        if_version: int | None = None,
    ) -> Tenant:
        def update() -> Tenant:
            now, after = self._tree.change(tenant_id, change, at_ms, if_version)
            if after is not now:
                self._access.write(actor, at_ms, audit_words.tenant_updated(now, after))
            return after

        return await self._once(update, wakes=True)

    async def move_tenant(
        self, tenant_id: str, to_id: str, actor: Actor, at_ms: int, if_version: int | None = None
    ) -> Tenant:
        def move() -> Tenant:
            moved = self._tree.move(tenant_id, to_id, if_version)
            self._access.write(actor, at_ms, audit_words.tenant_moved(tenant_id, to_id))
            return moved

        return await self._once(move, wakes=True)

    async def remove_tenant(
        self, tenant_id: str, actor: Actor, at_ms: int, if_version: int | None = None
    ) -> bool:
        def remove() -> bool:
            if tenant_id not in self._state.tenants:
                return False
            removed = self._tree.remove(tenant_id, if_version)
            gone = [member for member in self._all_members() if member.tenant_id == tenant_id]
            for member in gone:
                del self._access.members[member.user, tenant_id]
            for token in list(self._state.tokens.values()):
                if token.tenant_id == tenant_id:
                    self._revoke(token.token_id, actor, at_ms)
            self._access.write(actor, at_ms, audit_words.tenant_removed(removed, gone))
            return True

        return await self._once(remove, wakes=True)

    async def members(self) -> list[Member]:
        return await self._once(self._all_members)

    def _all_members(self) -> list[Member]:
        return [member for _, member in sorted(self._access.members.items())]

    async def set_member(self, member: Member, actor: Actor, at_ms: int) -> Member:
        def put() -> Member:
            if member.tenant_id != EVERYWHERE and member.tenant_id not in self._state.tenants:
                raise UnknownTenantError(member.tenant_id)
            key = (member.user, member.tenant_id)
            after = replace(member, by=actor.user, at_ms=at_ms)
            change = audit_words.member_set(self._access.members.get(key), after)
            self._access.members[key] = after
            self._access.write(actor, at_ms, change)
            return after

        return await self._once(put, wakes=True)

    async def remove_member(self, user: str, tenant_id: str, actor: Actor, at_ms: int) -> None:
        def remove() -> None:
            member = self._access.members.pop((user, tenant_id), None)
            if member is None:
                raise NoSuchMemberError(f"{user} has no role in {tenant_id} of its own")
            self._access.write(actor, at_ms, audit_words.member_removed(member))

        await self._once(remove, wakes=True)

    async def create_token(self, token: Token, actor: Actor, at_ms: int) -> Token:
        def create() -> Token:
            if token.tenant_id is not None and token.tenant_id not in self._state.tenants:
                raise UnknownTenantError(token.tenant_id)
            parent = token.parent_id
            if parent is not None and (
                parent not in self._state.tokens or self._state.tokens[parent].revoked
            ):
                raise TokenRevokedError(f"token {parent} was revoked: nothing more is made with it")
            made = replace(token, token_id=len(self._state.tokens) + 1)
            self._state.tokens[made.token_id] = made
            self._access.write(actor, at_ms, audit_words.token_created(made))
            return made

        return await self._once(create, wakes=True)

    async def tokens(self) -> list[Token]:
        return await self._once(lambda: list(self._state.tokens.values()))

    async def token_by_digest(self, digest: str) -> Token | None:
        return await self._once(
            lambda: next((token for token in self._state.tokens.values() if token.digest == digest), None)
        )

    async def token_by_id(self, token_id: int) -> Token | None:
        return await self._once(lambda: self._state.tokens.get(token_id))

    async def token_makers(self, token: Token) -> frozenset[str]:
        def makers() -> frozenset[str]:
            found, parent_id = set(), token.parent_id
            while parent_id is not None:
                parent = self._state.tokens[parent_id]
                found.add(parent.user)
                parent_id = parent.parent_id
            return frozenset(found)

        return await self._once(makers)

    async def attempt_holder(self, attempt_id: AttemptId) -> AttemptHolder | None:
        def holder() -> AttemptHolder | None:
            attempt = self._state.attempt(attempt_id)
            if attempt is None or not attempt.state.is_live:
                return None
            token_id = self._state.tasks[attempt_id.task_id].token_id
            token = None if token_id is None else self._state.tokens[token_id]
            return AttemptHolder(self._state.jobs[attempt_id.job_id].spec.user, token)

        return await self._once(holder)

    async def revoke_token(self, token_id: int, actor: Actor, at_ms: int) -> bool:
        return await self._once(lambda: self._revoke(token_id, actor, at_ms), wakes=True)

    def _revoke(self, token_id: int, actor: Actor, at_ms: int) -> bool:
        token = self._state.tokens.get(token_id)
        if token is None or token.revoked:
            return False
        self._state.tokens[token_id] = replace(token, revoked=True)
        self._access.write(actor, at_ms, audit_words.token_revoked(token))
        for other in list(self._state.tokens.values()):
            if other.parent_id == token_id:
                self._revoke(other.token_id, actor, at_ms)
        return True

    async def forget_sessions(self, epoch: int, at_ms: int, most: int = 1000) -> int:
        def forget() -> int:
            if epoch != self._state.epoch:
                raise DeposedError(f"epoch {epoch} is over: {self._state.epoch} leads by now")
            ended = [
                token.token_id
                for token in self._state.tokens.values()
                if token.is_session and token.has_ended(at_ms)
            ]
            for token_id in ended[:most]:
                del self._state.tokens[token_id]
            return len(ended[:most])

        return await self._once(forget)

    async def set_secret(self, user: str, name: str, body: bytes, actor: Actor, at_ms: int) -> None:
        def put() -> None:
            self._access.secrets[user, name] = (body, at_ms)
            self._access.write(actor, at_ms, audit_words.secret_set(user, name))

        await self._once(put)

    async def secret_names(self, user: str) -> list[tuple[str, int]]:
        def names() -> list[tuple[str, int]]:
            kept = sorted(self._access.secrets.items())
            return [(name, at_ms) for (owner, name), (_, at_ms) in kept if owner == user]

        return await self._once(names)

    async def remove_secret(self, user: str, name: str, actor: Actor, at_ms: int) -> bool:
        def remove() -> bool:
            if self._access.secrets.pop((user, name), None) is None:
                return False
            self._access.write(actor, at_ms, audit_words.secret_removed(user, name))
            return True

        return await self._once(remove)

    async def secret_bodies(self, user: str, names: Sequence[str]) -> dict[str, bytes]:
        secrets = self._access.secrets
        return await self._once(
            lambda: {name: secrets[user, name][0] for name in names if (user, name) in secrets}
        )

    async def note(  # noqa: PLR0917  the parts of a line
        self, actor: Actor, action: str, target: str, before: str, after: str, at_ms: int
    ) -> None:
        line = audit_words.Change(action, target, before, after)
        await self._once(lambda: self._access.write(actor, at_ms, line))

    async def audit_entries(
        self, where: AuditFilter, limit: int = 100, before_id: int | None = None
    ) -> list[AuditEntry]:
        def newest() -> list[AuditEntry]:
            older = self._access.audit if before_id is None else self._access.audit[: max(before_id - 1, 0)]
            return [entry for entry in reversed(older) if _is_wanted(entry, where)][:limit]

        return await self._once(newest)


def _is_wanted(entry: AuditEntry, where: AuditFilter) -> bool:
    return (
        where.user in (None, entry.actor.user)
        and (where.action is None or f"{entry.action}.".startswith(f"{where.action}."))
        and (where.target is None or is_within(entry.target, where.target))
        and (where.from_ms is None or entry.at_ms >= where.from_ms)
        and (where.until_ms is None or entry.at_ms < where.until_ms)
    )
