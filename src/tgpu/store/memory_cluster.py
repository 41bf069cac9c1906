"""What a cluster needs remembered, in a memory store."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tgpu.domain.node_limits import Admission, NodeLimits
from tgpu.store.cluster_port import (
    Applicant,
    Enrolled,
    JoinToken,
    Leader,
    NodeInUseError,
    ServerRow,
    StoreFacts,
    WindowRow,
)
from tgpu.store.join_rules import refusal
from tgpu.store.memory_state import State
from tgpu.store.port import DeposedError

T = TypeVar("T")


@dataclass(slots=True)
class Lease:
    """Void unless its epoch is the newest."""

    epoch: int = 0
    server_id: str = ""
    expires_ms: int | None = None
    """None once it was resigned."""


@dataclass(slots=True)
class ClusterState:
    lease: Lease = field(default_factory=Lease)
    servers: dict[str, tuple[ServerRow, int]] = field(default_factory=dict)
    """By id: what it said, and when."""
    join_tokens: dict[int, JoinToken] = field(default_factory=dict)
    node_keys: dict[str, str] = field(default_factory=dict)
    joined: dict[str, Applicant] = field(default_factory=dict)
    """Of nodes that joined by a token: how."""
    unapproved: set[str] = field(default_factory=set)
    secrets: dict[str, bytes] = field(default_factory=dict)


def loop_ms() -> int:
    """The clock of the event loop: in a simulation, virtual time."""
    return round(1000 * asyncio.get_running_loop().time())


class MemoryCluster(ABC):
    def __init__(self, state: State, clock_ms: Callable[[], int]) -> None:
        self._state, self._clock_ms = state, clock_ms
        self._cluster = ClusterState()

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        """The effect, with a moment for others before and after it."""

    async def facts(self) -> StoreFacts:
        return await self._once(lambda: StoreFacts("memory", "", "", self._clock_ms()))

    async def campaign(self, server_id: str, ttl_ms: int) -> int | None:
        def campaign() -> int | None:
            leader = self._leader()
            if leader is not None and leader.alive and leader.server_id != server_id:
                return None
            self._state.epoch += 1
            self._cluster.lease = Lease(self._state.epoch, server_id, self._clock_ms() + ttl_ms)
            return self._state.epoch

        return await self._once(campaign)

    async def renew(self, epoch: int, ttl_ms: int) -> bool:
        def renew() -> bool:
            lease = self._cluster.lease
            if epoch != lease.epoch or epoch != self._state.epoch or lease.expires_ms is None:
                return False
            lease.expires_ms = self._clock_ms() + ttl_ms
            return True

        return await self._once(renew)

    async def resign(self, epoch: int) -> None:
        def resign() -> None:
            if epoch == self._cluster.lease.epoch:
                self._cluster.lease.expires_ms = None

        await self._once(resign)

    async def leader(self) -> Leader | None:
        return await self._once(self._leader)

    def _leader(self) -> Leader | None:
        lease = self._cluster.lease
        if lease.epoch == 0 or lease.epoch != self._state.epoch:
            return None
        left_ms = max(0, (lease.expires_ms or 0) - self._clock_ms())
        return Leader(lease.server_id, lease.epoch, left_ms > 0, left_ms)

    async def announce(self, server: ServerRow) -> None:
        def announce() -> None:
            self._cluster.servers[server.server_id] = (server, self._clock_ms())

        await self._once(announce)

    async def servers(self, seen_within_ms: int) -> list[ServerRow]:
        def seen() -> list[ServerRow]:
            now_ms = self._clock_ms()
            return [
                replace(server, silent_ms=now_ms - at_ms)
                for _, (server, at_ms) in sorted(self._cluster.servers.items())
                if at_ms >= now_ms - seen_within_ms
            ]

        return await self._once(seen)

    async def withdraw(self, server_id: str) -> None:
        await self._once(lambda: self._cluster.servers.pop(server_id, None))

    async def create_join_token(self, token: JoinToken) -> JoinToken:
        def create() -> JoinToken:
            created = replace(token, token_id=len(self._cluster.join_tokens) + 1)
            self._cluster.join_tokens[created.token_id] = created
            return created

        return await self._once(create)

    async def join_tokens(self) -> list[JoinToken]:
        return await self._once(lambda: list(self._cluster.join_tokens.values()))

    async def revoke_join_token(self, token_id: int) -> bool:
        def revoke() -> bool:
            token = self._cluster.join_tokens.get(token_id)
            if token is None or token.revoked:
                return False
            self._cluster.join_tokens[token_id] = replace(token, revoked=True)
            return True

        return await self._once(revoke)

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
        def enrol() -> Enrolled:
            tokens = self._cluster.join_tokens
            token = next((token for token in tokens.values() if token.digest == token_digest), None)
            if (refused := refusal(token, at_ms, node_id, address)) is not None:
                raise refused
            assert token is not None
            if token.uses_left is not None:
                tokens[token.token_id] = replace(token, uses_left=token.uses_left - 1)
            had_key = node_id in self._cluster.node_keys
            self._cluster.node_keys[node_id] = key_digest
            self._cluster.joined[node_id] = Applicant(node_id, token.token_id, at_ms, address)
            (self._cluster.unapproved.discard if approved else self._cluster.unapproved.add)(node_id)
            return Enrolled(node_id, token.token_id, token.pool, replaced=had_key)

        return await self._once(enrol)

    async def admissions(self, node_ids: Sequence[str]) -> list[Admission | None]:
        return await self._once(lambda: [self._admission(node_id) for node_id in node_ids])

    def _admission(self, node_id: str) -> Admission | None:
        if node_id not in self._cluster.node_keys:
            return None
        joined = self._cluster.joined.get(node_id)
        limits = NodeLimits() if joined is None else self._cluster.join_tokens[joined.token_id].limits
        return Admission(node_id not in self._cluster.unapproved, limits)

    async def applicants(self) -> list[Applicant]:
        return await self._once(
            lambda: [self._cluster.joined[node_id] for node_id in sorted(self._cluster.unapproved)]
        )

    async def approve_nodes(self, node_ids: Sequence[str]) -> list[str]:
        def approve() -> list[str]:
            due = [node_id for node_id in dict.fromkeys(node_ids) if node_id in self._cluster.unapproved]
            self._cluster.unapproved.difference_update(due)
            return due

        return await self._once(approve)

    async def keep_key(self, node_id: str, key_digest: str, at_ms: int) -> bool:  # noqa: ARG002  as the port
        return await self._once(lambda: self._cluster.node_keys.setdefault(node_id, key_digest) == key_digest)

    async def node_key_digest(self, node_id: str) -> str | None:
        return await self._once(lambda: self._cluster.node_keys.get(node_id))

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]:
        return await self._once(lambda: [self._cluster.node_keys.get(node_id) for node_id in node_ids])

    async def remove_nodes(self, epoch: int, node_ids: Sequence[str]) -> list[str]:
        def remove() -> list[str]:
            self._check_epoch(epoch)
            for node_id in node_ids:
                held = sum(attempt.node_id == node_id for attempt in self._state.live_attempts())
                if held:
                    raise NodeInUseError(node_id, held)
            return [node_id for node_id in node_ids if self._remove(node_id)]

        return await self._once(remove)

    def _check_epoch(self, epoch: int) -> None:
        if epoch != self._state.epoch:
            raise DeposedError(f"epoch {epoch} is over: {self._state.epoch} leads by now")

    def _remove(self, node_id: str) -> bool:
        known = self._state.nodes.pop(node_id, None) is not None
        had_key = self._cluster.node_keys.pop(node_id, None) is not None
        self._cluster.joined.pop(node_id, None)
        self._cluster.unapproved.discard(node_id)
        return known or had_key

    async def settle_restore(self, epoch: int) -> None:
        def settle() -> None:
            self._check_epoch(epoch)
            self._state.restored = False

        await self._once(settle)

    async def create_window(self, window: WindowRow) -> WindowRow:
        def create() -> WindowRow:
            windows = self._state.windows
            made = replace(window, window_id=len(windows) + 1)
            earlier = next((known for known in windows.values() if made.repeats(known)), None)
            return earlier or self._state.put_window(made)

        return await self._once(create, wakes=True)

    async def windows(self) -> list[WindowRow]:
        return await self._once(lambda: list(self._state.windows.values()))

    async def cancel_window(self, window_id: int) -> bool:
        def cancel() -> bool:
            window = self._state.windows.get(window_id)
            if window is None or window.cancelled:
                return False
            self._state.put_window(replace(window, cancelled=True))
            return True

        return await self._once(cancel, wakes=True)

    async def secret(self, name: str, proposed: bytes) -> bytes:
        return await self._once(lambda: self._cluster.secrets.setdefault(name, proposed))
