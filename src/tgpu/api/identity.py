"""Who is calling: the kernel's word on the unix socket, a token over TCP; nobody else is believed."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from litestar.types import Scope

from tgpu.api.accounts import Account, Accounts
from tgpu.api.peercred import peer_of
from tgpu.api.problems import ProblemError, forbidden
from tgpu.config.settings import Settings
from tgpu.store.port import Store, Token

TOKEN_PREFIX = "tgpu_"  # noqa: S105  the part that every token shares is no secret
_TOKEN_BYTES = 32
_KEEP_S = 1.0  # a token that was revoked by another server may be believed this much longer
_MOST_KEPT = 4096


class Role(IntEnum):
    """In rising order: a role may do what every role below it may."""

    VIEWER = 1
    USER = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        return self.name.lower()


ROLES = {role.word: role for role in Role}


@dataclass(frozen=True, slots=True)
class Caller:
    user: str
    role: Role
    account: Account
    via: str
    token_expires_ms: int | None = None

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Identity:
    def __init__(
        self,
        store: Store,
        settings: Settings,
        accounts: Accounts,
        now_ms: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._accounts, self._now_ms, self._clock = store, accounts, now_ms, clock
        self._admins = frozenset(settings.admins)
        self._own_uid = os.geteuid()
        self._kept: dict[str, tuple[float, Token]] = {}
        self._revocations = 0

    def forget(self, digest: str) -> None:
        """Called once the token is revoked: from then on nobody is believed for having it."""
        self._kept.pop(digest, None)
        self._revocations += 1

    def role_of(self, account: Account) -> Role:
        if account.uid in (0, self._own_uid) or account.name in self._admins:
            return Role.ADMIN
        return Role.USER

    async def caller(self, scope: Scope) -> Caller:
        """Raises ProblemError if nobody can vouch for the caller."""
        peer = peer_of(scope)
        if peer is None:
            return await self._by_token(scope)
        account = await self._accounts.by_uid(peer.uid)
        if account is None:
            raise forbidden(
                f"uid {peer.uid} has no account on this machine; tgpu runs jobs only for named accounts"
            )
        return Caller(account.name, self.role_of(account), account, "socket")

    async def _by_token(self, scope: Scope) -> Caller:
        written = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, text = (written[0] if len(written) == 1 else b"").partition(b" ")
        if scheme.lower() != b"bearer" or not text.strip():
            raise _unauthorized("send a token: `Authorization: Bearer tgpu_…` (POST /tokens makes one)")
        token = await self._token(digest_of(text.strip().decode("latin-1")))
        if token is None:
            raise _unauthorized("this token is not known here, or was revoked; make a new one")
        if token.expires_ms is not None and token.expires_ms <= self._now_ms():
            raise _unauthorized("this token has expired; make a new one")
        account = await self._accounts.by_name(token.user)
        if account is None:
            raise forbidden(f"this token is for {token.user}, who has no account on this machine any more")
        # A token grants no more than its user has now: who is an administrator no longer keeps no back door.
        role = min(ROLES.get(token.role, Role.VIEWER), self.role_of(account))
        return Caller(account.name, role, account, "token", token.expires_ms)

    async def _token(self, digest: str) -> Token | None:
        kept = self._kept.get(digest)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        revocations = self._revocations
        token = await self._store.token_by_digest(digest)
        if token is None or token.revoked:
            self._kept.pop(digest, None)
            return None
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        if revocations == self._revocations:  # else what was read may be older than a revocation
            self._kept[digest] = (self._clock() + _KEEP_S, token)
        return token


def _unauthorized(detail: str) -> ProblemError:
    return ProblemError(401, "unauthorized", detail, headers={"WWW-Authenticate": 'Bearer realm="tgpu"'})
