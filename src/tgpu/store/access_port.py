"""Tenants and their terms, who may do what, tokens, users' secrets, and the log of who changed what.

Every change takes its `Actor` and writes its own line of the audit log, in its own transaction.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tgpu.domain.access import Action, Actor, AuditEntry, Member
from tgpu.domain.ids import AttemptId
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Tenant
from tgpu.store.refusals import StoreError


class TenantInUseError(StoreError):
    """It has jobs that have not ended, or tenants below it; the text says which."""


class MisplacedTenantError(StoreError):
    """It cannot have that name, or stand in that place; the text says why."""


class NameKeptError(StoreError):
    """Ended jobs are still kept under the name: whoever gets it could read them."""

    def __init__(self, tenant_id: str, removed_ms: int | None) -> None:
        super().__init__(f"ended jobs are kept under the name {tenant_id!r}")
        self.tenant_id, self.removed_ms = tenant_id, removed_ms
        """Whose they are, and when that tenant was removed, as far as the audit log knows."""


class NoSuchMemberError(StoreError):
    pass


class TokenRevokedError(StoreError):
    """The token was revoked meanwhile: nothing more is made with it."""


class TokenSpentError(StoreError):
    """The token's cap has no room for the submission; the text says what is left."""


SESSION_PREFIX = "web"
"""Digests of web sessions begin so. Those of tokens that a caller sends are bare hexadecimal numbers."""


@dataclass(frozen=True, slots=True)
class Token:
    """A key for callers over TCP; only its digest is kept."""

    token_id: int
    user: str
    role: str
    digest: str
    note: str
    created_ms: int
    expires_ms: int | None
    revoked: bool = False
    tenant_id: str | None = None
    """Good only in this tenant and below it."""
    actions: frozenset[Action] = frozenset()
    """Good only for these; empty: for all that the role allows."""
    highest_class: PriorityClass | None = None
    jobs_left: int | None = None
    """How many more jobs may be submitted with it."""
    gpu_ms_left: int | None = None
    """Thousandths of a GPU times seconds that jobs may still ask for by their time limits; what they leave
    unused is given back when they end."""
    parent_id: int | None = None
    """The token that it was made with: whoever revokes that revokes this."""

    @property
    def is_session(self) -> bool:
        return self.digest.startswith(SESSION_PREFIX)

    def has_ended(self, now_ms: int) -> bool:
        return self.revoked or (self.expires_ms is not None and self.expires_ms <= now_ms)


@dataclass(frozen=True, slots=True)
class AttemptHolder:
    """For whom an attempt runs, and by what."""

    user: str
    token: Token | None
    """That its job was submitted with, as it is now; None: with none."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """An empty field does not filter."""

    user: str | None = None
    action: str | None = None
    """Or the part before the dot."""
    target: str | None = None
    """Or everything below it: `lab` finds `lab/vision`."""
    from_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AccessBook:
    """Everything that says who may do what, as of one moment."""

    tenants: list[Tenant] = field(default_factory=list)
    """Without what they use, but for GPU-hours."""
    members: list[Member] = field(default_factory=list)


class AccessStore(Protocol):
    async def access_book(self) -> AccessBook: ...

    async def tenants(self) -> list[Tenant]: ...

    async def tenant(self, tenant_id: str) -> Tenant | None: ...

    async def create_tenant(
        self, tenant: Tenant, actor: Actor, at_ms: int, *, take_over: bool = False
    ) -> Tenant:
        """Raises TenantExistsError, UnknownTenantError if its parent is missing, or, unless it is to
        `take_over`, which the audit log says then, NameKeptError if ended jobs are kept under its name, or
        below it."""
        ...

    async def update_tenant(
        self,
        tenant_id: str,
        change: Callable[[Tenant], Tenant],
        actor: Actor,
        at_ms: int,
        if_version: int | None = None,
    ) -> Tenant:
        """`change` is given the tenant as it is, and says how its weight, limits, job limits, terms and
        budget shall be; whatever it raises is raised. It is called on another thread, while nobody else
        writes the tenant, and perhaps more than once. If nothing differs, nothing is written. A limit that is
        new counts all that lives; of GPUs of a model, tasks that did not ask for it by name are kept from it.
        Raises UnknownTenantError or StaleVersionError."""
        ...

    async def move_tenant(
        self, tenant_id: str, to_id: str, actor: Actor, at_ms: int, if_version: int | None = None
    ) -> Tenant:
        """Gives it and everybody below it another name, and with that perhaps another parent: its jobs,
        members, tokens and windows with it. What lives is charged to the new parents, whether or not they
        have room, and released from the old ones; what was used of GPU-hours stays where it was used. Jobs
        that are over follow some at a time, if need be after this has returned or at the next start. Raises
        UnknownTenantError, TenantExistsError, StaleVersionError, MisplacedTenantError if it would be below
        itself or too deep, TenantInUseError for `default`, or NameKeptError as `create_tenant` does."""
        ...

    async def remove_tenant(
        self, tenant_id: str, actor: Actor, at_ms: int, if_version: int | None = None
    ) -> bool:
        """Its ended jobs stay, under its name; its members go, and tokens that are good only there are
        revoked, with those made with them. False if there is none. Raises TenantInUseError,
        StaleVersionError."""
        ...

    async def members(self) -> list[Member]: ...

    async def set_member(self, member: Member, actor: Actor, at_ms: int) -> Member:
        """Adds one, or changes the role. Raises UnknownTenantError."""
        ...

    async def remove_member(self, user: str, tenant_id: str, actor: Actor, at_ms: int) -> None:
        """Raises NoSuchMemberError."""
        ...

    async def create_token(self, token: Token, actor: Actor, at_ms: int) -> Token:
        """Gives it the next id. Raises UnknownTenantError for one that is good only where nobody is, and
        TokenRevokedError if its parent is."""
        ...

    async def tokens(self) -> list[Token]: ...

    async def token_by_digest(self, digest: str) -> Token | None: ...

    async def token_by_id(self, token_id: int) -> Token | None: ...

    async def token_makers(self, token: Token) -> frozenset[str]:
        """The users of the token that it was made with, of the one that that was made with, and so on."""
        ...

    async def attempt_holder(self, attempt_id: AttemptId) -> AttemptHolder | None:
        """None if there is no such attempt, or it holds nothing any more: it is over, or lost."""
        ...

    async def revoke_token(self, token_id: int, actor: Actor, at_ms: int) -> bool:
        """With all that were made with it, a line in the audit log each. False if there is nothing to do."""
        ...

    async def forget_sessions(self, epoch: int, at_ms: int, most: int = 1000) -> int:
        """Removes the rows of web sessions that were ended or have expired; the audit log keeps when.
        Returns how many. Raises DeposedError."""
        ...

    async def set_secret(self, user: str, name: str, body: bytes, actor: Actor, at_ms: int) -> None:
        """The audit log gets its name only."""
        ...

    async def secret_names(self, user: str) -> list[tuple[str, int]]:
        """Each with the moment it was set."""
        ...

    async def remove_secret(self, user: str, name: str, actor: Actor, at_ms: int) -> bool: ...

    async def secret_bodies(self, user: str, names: Sequence[str]) -> dict[str, bytes]:
        """Those that there are not are missing."""
        ...

    async def note(  # noqa: PLR0917  the parts of a line
        self, actor: Actor, action: str, target: str, before: str, after: str, at_ms: int
    ) -> None:
        """A line of the audit log for a change that the store itself does not know of."""
        ...

    async def audit_entries(
        self, where: AuditFilter, limit: int = 100, before_id: int | None = None
    ) -> list[AuditEntry]:
        """The newest first."""
        ...
