"""Tenants and who may do what, on any SQL database: each method is a function of `store/sql` in its own
transaction. Whatever changes who may do what wakes the servers, which keep it in memory.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from tgpu.domain.access import Actor, AuditEntry, Member
from tgpu.domain.ids import AttemptId
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import AccessBook, AttemptHolder, AuditFilter, Token
from tgpu.store.audit_words import Change, Deed
from tgpu.store.port import StoreUnavailableError
from tgpu.store.sql import audit, members, renames, tenant_changes, tenants, tokens, user_secrets
from tgpu.store.sql.session import Session

T = TypeVar("T")
_PATIENCE_S = 10.0


class SqlAccess(ABC):
    def __init__(self) -> None:
        self._following: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T:
        """In one transaction that is durable when this returns; `wakes` whoever subscribed."""

    @abstractmethod
    async def _read(self, work: Callable[[Session], T]) -> T:
        """On one state of the database."""

    async def access_book(self) -> AccessBook:
        return await self._read(lambda session: AccessBook(tenants.terms(session), members.every(session)))

    async def tenants(self) -> list[Tenant]:
        return await self._read(tenants.every)

    async def tenant(self, tenant_id: str) -> Tenant | None:
        return await self._read(lambda session: tenants.one(session, tenant_id))

    async def create_tenant(
        self, tenant: Tenant, actor: Actor, at_ms: int, *, take_over: bool = False
    ) -> Tenant:
        return await self._write(
            lambda session: tenant_changes.create(session, tenant, Deed(actor, at_ms), take_over=take_over),
            wakes=True,
        )

    async def update_tenant(
        self,
        tenant_id: str,
        change: Callable[[Tenant], Tenant],
        actor: Actor,
        at_ms: int,
        if_version: int | None = None,
    ) -> Tenant:
        return await self._write(
            lambda session: tenant_changes.change(session, tenant_id, change, Deed(actor, at_ms), if_version),
            wakes=True,
        )

    async def move_tenant(
        self, tenant_id: str, to_id: str, actor: Actor, at_ms: int, if_version: int | None = None
    ) -> Tenant:
        moved = await self._write(
            lambda session: tenant_changes.move(session, tenant_id, to_id, Deed(actor, at_ms), if_version),
            wakes=True,
        )
        await self.let_history_follow()
        return moved

    async def let_history_follow(self) -> None:
        """What is left of an earlier move, too. If it takes long it goes on by itself, until `close`."""
        following = asyncio.create_task(self._follow())
        self._following.add(following)
        following.add_done_callback(self._following.discard)
        await asyncio.wait({following}, timeout=_PATIENCE_S)

    async def _follow(self) -> None:
        with suppress(StoreUnavailableError):  # then it goes on with the next move, or the next start
            while (rename := await self._read(renames.first)) is not None:
                seen: int | None = 0
                while seen is not None:
                    seen = await self._write(partial(renames.follow, rename=rename, after_job_id=seen))

    def _end_following(self) -> None:
        for task in self._following:
            task.cancel()

    async def remove_tenant(
        self, tenant_id: str, actor: Actor, at_ms: int, if_version: int | None = None
    ) -> bool:
        return await self._write(
            lambda session: tenant_changes.remove(session, tenant_id, Deed(actor, at_ms), if_version),
            wakes=True,
        )

    async def members(self) -> list[Member]:
        return await self._read(members.every)

    async def set_member(self, member: Member, actor: Actor, at_ms: int) -> Member:
        return await self._write(lambda session: members.put(session, member, Deed(actor, at_ms)), wakes=True)

    async def remove_member(self, user: str, tenant_id: str, actor: Actor, at_ms: int) -> None:
        await self._write(
            lambda session: members.remove(session, user, tenant_id, Deed(actor, at_ms)), wakes=True
        )

    async def create_token(self, token: Token, actor: Actor, at_ms: int) -> Token:
        return await self._write(
            lambda session: tokens.create(session, token, Deed(actor, at_ms)), wakes=True
        )

    async def tokens(self) -> list[Token]:
        return await self._read(tokens.every)

    async def token_by_digest(self, digest: str) -> Token | None:
        return await self._read(lambda session: tokens.by_digest(session, digest))

    async def token_by_id(self, token_id: int) -> Token | None:
        return await self._read(lambda session: tokens.by_id(session, token_id))

    async def token_makers(self, token: Token) -> frozenset[str]:
        return await self._read(lambda session: tokens.makers(session, token))

    async def attempt_holder(self, attempt_id: AttemptId) -> AttemptHolder | None:
        return await self._read(lambda session: tokens.attempt_holder(session, attempt_id))

    async def revoke_token(self, token_id: int, actor: Actor, at_ms: int) -> bool:
        return await self._write(
            lambda session: tokens.revoke(session, token_id, Deed(actor, at_ms)), wakes=True
        )

    async def forget_sessions(self, epoch: int, at_ms: int, most: int = 1000) -> int:
        return await self._write(lambda session: tokens.forget_sessions(session, epoch, at_ms, most))

    async def set_secret(self, user: str, name: str, body: bytes, actor: Actor, at_ms: int) -> None:
        await self._write(lambda session: user_secrets.put(session, user, name, body, Deed(actor, at_ms)))

    async def secret_names(self, user: str) -> list[tuple[str, int]]:
        return await self._read(lambda session: user_secrets.names(session, user))

    async def remove_secret(self, user: str, name: str, actor: Actor, at_ms: int) -> bool:
        return await self._write(lambda session: user_secrets.remove(session, user, name, Deed(actor, at_ms)))

    async def secret_bodies(self, user: str, names: Sequence[str]) -> dict[str, bytes]:
        return await self._read(lambda session: user_secrets.bodies(session, user, names))

    async def note(  # noqa: PLR0917  the parts of a line
        self, actor: Actor, action: str, target: str, before: str, after: str, at_ms: int
    ) -> None:
        line = Change(action, target, before, after)
        await self._write(lambda session: audit.write(session, Deed(actor, at_ms), line))

    async def audit_entries(
        self, where: AuditFilter, limit: int = 100, before_id: int | None = None
    ) -> list[AuditEntry]:
        return await self._read(lambda session: audit.entries(session, where, limit, before_id))
