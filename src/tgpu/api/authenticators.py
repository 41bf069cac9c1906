"""Who vouches for a caller: a token, else the kernel on the unix socket; each is a class behind one port.

Another one (OpenID Connect, say) is one more class in the list that `identity.py` goes through: it reads what
it understands of a request and names an account of this machine, or leaves the request to the next.
"""

import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Scope as HttpScope

from tgpu.api.accounts import Account, Accounts
from tgpu.api.peercred import peer_of
from tgpu.api.problems import ProblemError, forbidden
from tgpu.api.roles import Scope
from tgpu.store.access_port import Token
from tgpu.store.port import Store

TOKEN_PREFIX = "tgpu_"  # noqa: S105  the part that every token shares is no secret
_TOKEN_BYTES = 32
_KEEP_S = 1.0
_MOST_KEPT = 4096


@dataclass(frozen=True, slots=True)
class Claims:
    """Who it is, by whose word, and from where."""

    account: Account
    via: str
    address: str
    token: Token | None = None
    """Whose caps hold for what the caller submits."""
    scope: Scope | None = None
    """What narrows down what the account may do."""
    job_id: int | None = None
    """The job that speaks, if it is one."""
    session: Token | None = None
    """The browser's session, if it is one; `token` is then the token that it was opened with."""


class Authenticator(Protocol):
    async def caller(self, scope: HttpScope) -> Claims | None:
        """None if it finds nothing that it understands. Raises ProblemError if what it finds is wrong."""
        ...


class SocketPeer:
    """The kernel says which uid opened the socket; nothing that a client sends can change that."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def caller(self, scope: HttpScope) -> Claims | None:
        peer = peer_of(scope)
        if peer is None:
            return None
        account = await self._accounts.by_uid(peer.uid)
        if account is None:
            raise forbidden(
                f"uid {peer.uid} has no account on this machine; tgpu runs jobs only for named accounts"
            )
        return Claims(account, "socket", address_of(scope))


def new_token() -> str:
    return TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def bearer_of(scope: HttpScope) -> str | None:
    """What the caller shows for themselves; None: nothing. Raises ProblemError for what is no such thing."""
    written = [value for name, value in scope["headers"] if name == b"authorization"]
    if not written:
        return None
    scheme, _, text = (written[0] if len(written) == 1 else b"").partition(b" ")
    if scheme.lower() != b"bearer" or not text.strip():
        raise unauthorized("one header `Authorization: Bearer tgpu_…` is understood, and no other")
    return text.strip().decode("latin-1")


class BearerToken:
    """A token's row is kept in memory only where this server alone can revoke it. Where others can, it is
    read for every request: a token that was revoked anywhere is refused everywhere."""

    def __init__(
        self,
        store: Store,
        accounts: Accounts,
        now_ms: Callable[[], int],
        *,
        shared: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`shared`: other servers use the same store."""
        self._store, self._accounts, self._now_ms, self._clock = store, accounts, now_ms, clock
        self._may_keep = not shared
        self._kept: dict[str | int, tuple[float, Token]] = {}
        """By digest and by id."""
        self._revocations = 0

    def forget_all(self) -> None:
        """Called once some are revoked: from then on nobody is believed for having one."""
        self._kept.clear()
        self._revocations += 1

    async def caller(self, scope: HttpScope) -> Claims | None:
        text = bearer_of(scope)
        if text is None:
            return None
        token = await self.known(digest_of(text))
        if token is None:
            raise unauthorized("this token is not known here, or was revoked; make a new one")
        account = await self.checked(token)
        return Claims(account, "token", address_of(scope), token, Scope.of(token))

    async def checked(self, token: Token) -> Account:
        """Its user. It ends with those that it was made with: also when their users are gone. Raises
        ProblemError if it is worthless by now."""
        if token.revoked:
            raise unauthorized("this token was revoked; make a new one")
        if token.expires_ms is not None and token.expires_ms <= self._now_ms():
            raise unauthorized("this token has expired; make a new one")
        account = await self._accounts.by_name(token.user)
        if account is None:
            raise forbidden(f"this token is for {token.user}, who has no account on this machine any more")
        makers = frozenset[str]() if token.parent_id is None else await self._store.token_makers(token)
        for user in makers - {token.user}:
            if await self._accounts.by_name(user) is None:
                raise forbidden(
                    f"this token was made with one of {user}, who has no account on this machine any more; "
                    "make a new one"
                )
        return account

    async def known(self, digest: str) -> Token | None:
        """None if there is none, or it was revoked. It may have expired."""
        return await self._token(digest, lambda: self._store.token_by_digest(digest))

    async def by_id(self, token_id: int) -> Token | None:
        """The same, by its number."""
        return await self._token(token_id, lambda: self._store.token_by_id(token_id))

    async def _token(self, key: str | int, read: Callable[[], Awaitable[Token | None]]) -> Token | None:
        kept = self._kept.get(key)
        if kept is not None and kept[0] > self._clock():
            return kept[1]
        revocations = self._revocations
        token = await read()
        if token is None or token.revoked:
            self._kept.pop(key, None)
            return None
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        if self._may_keep and revocations == self._revocations:  # else it may be older than a revocation
            self._kept[key] = (self._clock() + _KEEP_S, token)
        return token


def address_of(scope: HttpScope) -> str:
    peer, client = peer_of(scope), scope["client"]
    if peer is not None:
        return f"pid {peer.pid}"
    return client[0] if client else ""


def unauthorized(detail: str, kind: str = "unauthorized") -> ProblemError:
    return ProblemError(401, kind, detail, headers={"WWW-Authenticate": 'Bearer realm="tgpu"'})
