"""What a cluster needs remembered beside its jobs: who leads, which servers and nodes belong to it, what is
kept for whom, and the secrets that all servers share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from tgpu.domain.job import LabelRule
from tgpu.domain.node_limits import Admission, NodeLimits
from tgpu.store.refusals import StoreError

REPEATED_WITHIN_MS = 60_000
"""A client that lost the answer asks again so shortly after."""


class UnknownJoinTokenError(StoreError):
    """There is no such join token, or it was revoked."""


class JoinTokenExpiredError(StoreError):
    pass


class JoinTokenUsedError(StoreError):
    """It was good for a number of nodes, and they have joined."""


class JoinTokenLimitError(StoreError):
    """It is for another node, or for another network; the text says which."""


class NodeInUseError(StoreError):
    def __init__(self, node_id: str, attempts: int) -> None:
        held = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(
            f"node {node_id} still holds {held}: drain it and wait until nothing runs there, or cancel that"
        )
        self.node_id, self.attempts = node_id, attempts


@dataclass(frozen=True, slots=True)
class Leader:
    """Whoever won the newest campaign."""

    server_id: str
    epoch: int
    alive: bool
    """Whether its lease still runs, by the database's clock. If not, it may lead until somebody else wins."""
    left_ms: int = field(default=0, compare=False)
    """For how long, by the same clock."""


@dataclass(frozen=True, slots=True)
class ServerRow:
    """A server as it announces itself."""

    server_id: str
    url: str
    version: str
    config_digest: str
    """Of the settings that all servers of a cluster must agree on."""
    started_ms: int
    silent_ms: int = field(default=0, compare=False)
    """Since it announced itself last, by the store's clock."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    """Lets new nodes in; only its digest is kept."""

    token_id: int
    digest: str
    note: str
    created_by: str
    created_ms: int
    expires_ms: int | None
    uses_left: int | None = 1
    """None: any number of nodes."""
    pool: str | None = None
    """Where nodes that join by it belong, whatever they say themselves."""
    revoked: bool = False
    node_name: str | None = None
    """The only node that may join by it."""
    labels: tuple[str, ...] | None = None
    serves: str | None = None
    address: str | None = None

    @property
    def limits(self) -> NodeLimits:
        return NodeLimits(self.pool, self.labels, self.serves, self.address)


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A node that was let in, and on whose word."""

    node_id: str
    token_id: int
    pool: str | None
    replaced: bool
    """Whether the node had a key before, which is worthless now."""


@dataclass(frozen=True, slots=True)
class Applicant:
    """A node that has joined and waits for approval."""

    node_id: str
    token_id: int
    joined_ms: int
    address: str
    """From which it joined."""


class WindowKind(StrEnum):
    MAINTENANCE = "maintenance"
    RESERVATION = "reservation"


@dataclass(frozen=True, slots=True)
class WindowRow:
    """Nodes that are kept from one moment to another: for maintenance, or for somebody."""

    window_id: int
    kind: WindowKind
    name: str
    node_ids: tuple[str, ...]
    """Nodes by name."""
    rules: tuple[LabelRule, ...]
    """Nodes by what they are like: those that satisfy all of these, if there are any, belong to it too."""
    from_ms: int
    until_ms: int
    created_by: str
    created_ms: int
    tenant_id: str | None = None
    """Who may use the nodes meanwhile, with everybody below; None: no tenant."""
    users: tuple[str, ...] = ()
    """Who may use them by name."""
    cancelled: bool = False

    def repeats(self, earlier: "WindowRow") -> bool:
        """Whether a client that lost the answer asked for the same once more."""
        if earlier.cancelled or self.created_ms - earlier.created_ms > REPEATED_WITHIN_MS:
            return False
        both_from_now = (self.from_ms, earlier.from_ms) == (self.created_ms, earlier.created_ms)
        alike = replace(
            earlier,
            window_id=self.window_id,
            created_ms=self.created_ms,
            from_ms=self.from_ms if both_from_now else earlier.from_ms,
        )
        return alike == self


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """What a store says of itself."""

    program: str
    """With its version."""
    revision: str
    """Of its tables."""
    known_revision: str
    """The newest that this program knows."""
    clock_ms: int


class ClusterStore(Protocol):
    """The part of a store that is about the cluster; every method is one transaction."""

    async def facts(self) -> StoreFacts: ...

    # The lease: who leads. Its end is judged by the database's clock alone: servers' clocks need not agree.

    async def campaign(self, server_id: str, ttl_ms: int) -> int | None:
        """A new epoch, higher than every one before, and a lease for `ttl_ms`, if nobody else holds a lease
        that still runs; None if somebody does. Whoever holds the lease already gets a new epoch too."""
        ...

    async def renew(self, epoch: int, ttl_ms: int) -> bool:
        """The lease of this epoch runs for `ttl_ms` from now on. A lease that ran out is renewed as well, as
        long as nobody else has won. False if the epoch is not the newest any more, or was resigned."""
        ...

    async def resign(self, epoch: int) -> None:
        """The lease of this epoch ends at once and cannot be renewed; of an older epoch, nothing happens."""
        ...

    async def leader(self) -> Leader | None:
        """Who won the newest campaign; None if nobody has, or the newest epoch was begun by `claim`."""
        ...

    # Servers: each speaks for itself.

    async def announce(self, server: ServerRow) -> None:
        """It is here, as of now by the database's clock."""
        ...

    async def servers(self, seen_within_ms: int) -> list[ServerRow]:
        """Those that announced themselves in this time, by the database's clock; ordered by id."""
        ...

    async def withdraw(self, server_id: str) -> None: ...

    # Enrolment: who may be a node. Times are the caller's.

    async def create_join_token(self, token: JoinToken) -> JoinToken:
        """Gives it the next id."""
        ...

    async def join_tokens(self) -> list[JoinToken]:
        """All of them, used, expired and revoked ones too."""
        ...

    async def revoke_join_token(self, token_id: int) -> bool: ...

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
        """Spends one use of the token and gives the node this key instead of any it had: whether a known
        node's name may be taken is the caller's decision. Without `approved` the node waits for
        `approve_nodes`. Raises UnknownJoinTokenError, JoinTokenExpiredError, JoinTokenUsedError,
        JoinTokenLimitError."""
        ...

    async def admissions(self, node_ids: Sequence[str]) -> list[Admission | None]:
        """Of each, in this order; None for a node that has no key."""
        ...

    async def applicants(self) -> list[Applicant]:
        """Nodes that wait for approval, by name."""
        ...

    async def approve_nodes(self, node_ids: Sequence[str]) -> list[str]:
        """Approves those of these nodes that wait for it, and returns them."""
        ...

    async def keep_key(self, node_id: str, key_digest: str, at_ms: int) -> bool:
        """Gives this key to a node that has none. Whether the node's key is this one now."""
        ...

    async def node_key_digest(self, node_id: str) -> str | None: ...

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]:
        """Of each, in this order."""
        ...

    async def remove_nodes(self, epoch: int, node_ids: Sequence[str]) -> list[str]:
        """Forgets these nodes and their keys, all or none; returns those of which something was there. Raises
        NodeInUseError while an attempt holds something on one of them, and DeposedError."""
        ...

    async def settle_restore(self, epoch: int) -> None:
        """Every node was heard since the store was put back from a copy, or given up. Raises DeposedError."""
        ...

    # Windows.

    async def create_window(self, window: WindowRow) -> WindowRow:
        """Gives it the next id. If it repeats an earlier one, that one is returned instead."""
        ...

    async def windows(self) -> list[WindowRow]:
        """All of them, past and cancelled ones too."""
        ...

    async def cancel_window(self, window_id: int) -> bool: ...

    # Secrets.

    async def secret(self, name: str, proposed: bytes) -> bytes:
        """What is kept under this name. The first proposal is kept, and everybody gets that one."""
        ...
