"""What a cluster needs remembered, on any SQL database: each method is a function of `store/sql` in its own
transaction.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from tgpu.domain.node_limits import Admission
from tgpu.store.cluster_port import Applicant, Enrolled, JoinToken, Leader, ServerRow, StoreFacts, WindowRow
from tgpu.store.sql import enrolment, facts, lease, restoring, secrets, servers, windows
from tgpu.store.sql.session import Session

T = TypeVar("T")


class SqlCluster(ABC):
    @abstractmethod
    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T:
        """In one transaction that is durable when this returns; `wakes` whoever subscribed."""

    @abstractmethod
    async def _read(self, work: Callable[[Session], T]) -> T:
        """On one state of the database."""

    async def facts(self) -> StoreFacts:
        return await self._read(facts.facts)

    async def campaign(self, server_id: str, ttl_ms: int) -> int | None:
        return await self._write(lambda session: lease.campaign(session, server_id, ttl_ms))

    async def renew(self, epoch: int, ttl_ms: int) -> bool:
        return await self._write(lambda session: lease.renew(session, epoch, ttl_ms))

    async def resign(self, epoch: int) -> None:
        await self._write(lambda session: lease.resign(session, epoch))

    async def leader(self) -> Leader | None:
        return await self._read(lease.leader)

    async def announce(self, server: ServerRow) -> None:
        await self._write(lambda session: servers.announce(session, server))

    async def servers(self, seen_within_ms: int) -> list[ServerRow]:
        return await self._read(lambda session: servers.seen(session, seen_within_ms))

    async def withdraw(self, server_id: str) -> None:
        await self._write(lambda session: servers.withdraw(session, server_id))

    async def create_join_token(self, token: JoinToken) -> JoinToken:
        return await self._write(lambda session: enrolment.create(session, token))

    async def join_tokens(self) -> list[JoinToken]:
        return await self._read(enrolment.every)

    async def revoke_join_token(self, token_id: int) -> bool:
        return await self._write(lambda session: enrolment.revoke(session, token_id))

    async def enrol(
        self,
        token_digest: str,
        node_id: str,
        key_digest: str,
        at_ms: int,
        *,
        address: str = "",
        approved: bool = True,
    ) -> Enrolled:
        return await self._write(
            lambda session: enrolment.enrol(
                session, token_digest, node_id, key_digest, at_ms, address=address, approved=approved
            )
        )

    async def admissions(self, node_ids: Sequence[str]) -> list[Admission | None]:
        return await self._read(lambda session: enrolment.admissions(session, node_ids))

    async def applicants(self) -> list[Applicant]:
        return await self._read(enrolment.applicants)

    async def approve_nodes(self, node_ids: Sequence[str]) -> list[str]:
        return await self._write(lambda session: enrolment.approve(session, node_ids))

    async def keep_key(self, node_id: str, key_digest: str, at_ms: int) -> bool:
        return await self._write(lambda session: enrolment.keep_key(session, node_id, key_digest, at_ms))

    async def node_key_digest(self, node_id: str) -> str | None:
        return await self._read(lambda session: enrolment.key_of(session, node_id))

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]:
        return await self._read(lambda session: enrolment.keys_of(session, node_ids))

    async def remove_nodes(self, epoch: int, node_ids: Sequence[str]) -> list[str]:
        return await self._write(lambda session: enrolment.remove_nodes(session, epoch, node_ids))

    async def settle_restore(self, epoch: int) -> None:
        await self._write(lambda session: restoring.settle(session, epoch))

    async def create_window(self, window: WindowRow) -> WindowRow:
        return await self._write(lambda session: windows.create(session, window), wakes=True)

    async def windows(self) -> list[WindowRow]:
        return await self._read(windows.every)

    async def cancel_window(self, window_id: int) -> bool:
        return await self._write(lambda session: windows.cancel(session, window_id), wakes=True)

    async def secret(self, name: str, proposed: bytes) -> bytes:
        return await self._write(lambda session: secrets.secret(session, name, proposed))
