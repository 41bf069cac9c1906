"""Web sessions: tokens for browsers whose secret is split between a cookie and the page.

The cookie alone authenticates nothing: a browser also sends it with requests that another site or another
port caused. The page key alone authenticates nothing either: scripts of the page can read it. Each request
carries both, the page key in the header `X-Tgpu-Page-Key`. A WebSocket, for which a page cannot set headers,
carries the cookie and a one-time ticket.

On a plain port another user's process can take over the port once this process has ended, and then receives
both halves. So the digest of such a session includes a salt that exists only in the memory of this process.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterator
from typing import NamedTuple

from starlette.types import Scope as HttpScope

from tgpu.api.accounts import Account, Accounts
from tgpu.api.auth.browser_access import BrowserAccess
from tgpu.api.auth.one_time_secrets import OneTimeSecrets
from tgpu.api.authenticators import BearerToken, Claims, address_of, digest_of, unauthorized
from tgpu.api.failure_limit import FailureLimit
from tgpu.api.origin import requested_host
from tgpu.api.peercred import peer_of
from tgpu.api.problems import ProblemError, forbidden
from tgpu.api.rate_limit import RateLimit
from tgpu.api.roles import Scope
from tgpu.domain.access import Actor, Role
from tgpu.store.access_port import SESSION_PREFIX, Token
from tgpu.store.port import Store

PAGE_KEY_HEADER = "X-Tgpu-Page-Key"
TERMINAL_PROTOCOL = "tgpu.terminal"
TICKET_PREFIX = "tgpu.ticket."
NOTE = "dashboard"
LINK_S = 300.0
TICKET_S = 30.0
MOST_SESSIONS = 32
"""Of a user's links, or of one token that they were opened with: a further one ends the oldest."""
MOST_OF_USER = 4 * MOST_SESSIONS
"""Of all of a user's links and tokens together, likewise."""
MOST_SIGN_INS = 120
"""Of one user within a minute."""
_COOKIE, _SECURE_COOKIE = "tgpu-session", "__Host-tgpu-session"
_HALF_BYTES = 32
_MOST_COOKIES = 4
"""Of one name: a server on another port can add its own, and must not thereby end a session."""
_LASTING_SALT = b"tgpu web session"
_SESSION_KEY = "tgpu.session"
_PAGE_KEY_HEADER = PAGE_KEY_HEADER.lower().encode()


class Principal(NamedTuple):
    """The user and scope that a session acts with."""

    user: str
    token_id: int | None
    """The token that it was opened with; None: the user's own word, on the unix socket."""


class Opened(NamedTuple):
    """A new session."""

    row: Token
    page_key: str
    set_cookie: str


class _Ticket(NamedTuple):
    session: str
    """The session's digest."""
    cookies: frozenset[str]
    """Digests of the cookies that came with the request for the ticket."""


class WebSessions:
    """An authenticator, and the place where sessions are opened and closed."""

    def __init__(  # noqa: PLR0917  its parts
        self,
        store: Store,
        accounts: Accounts,
        tokens: BearerToken,
        browser: BrowserAccess,
        now_ms: Callable[[], int],
        hours: float,
    ) -> None:
        """`hours`: how long a session lasts."""
        self._store, self._accounts, self._tokens = store, accounts, tokens
        self.browser = browser
        self._now_ms, self._lifetime_ms = now_ms, round(hours * 3_600_000)
        self._salt = _LASTING_SALT if browser.is_encrypted else secrets.token_bytes(32)
        self._links: OneTimeSecrets[Principal] = OneTimeSecrets(LINK_S)
        self._tickets: OneTimeSecrets[_Ticket] = OneTimeSecrets(TICKET_S)
        self._failures = FailureLimit()
        self._sign_ins = RateLimit(MOST_SIGN_INS)

    # Requests

    async def caller(self, scope: HttpScope) -> Claims | None:
        """The unix socket identifies its callers without a session."""
        if peer_of(scope) is not None:
            return None
        shown = self._shown(scope)
        if shown is None:
            return None
        self._check_host(scope)
        for digest in shown:
            row = await self._tokens.known(digest)
            if row is not None:
                scope[_SESSION_KEY] = row.digest  # our own key
                return await self._claims(scope, row)
        raise _ended()

    def _shown(self, scope: HttpScope) -> list[str] | None:
        """Digests of the sessions that the request may mean; None if it shows no session."""
        if _SESSION_KEY in scope:  # asked again during a long answer: a ticket is valid only once
            return [str(scope[_SESSION_KEY])]  # our own key
        page_keys = [value for name, value in scope["headers"] if name == _PAGE_KEY_HEADER]
        if page_keys:
            page_key = page_keys[0].decode("latin-1") if len(page_keys) == 1 else ""
            return [self._digest(cookie, page_key) for cookie in self._cookies(scope)]
        if scope["type"] == "websocket":
            return self._by_ticket(scope)
        return None

    def _by_ticket(self, scope: HttpScope) -> list[str] | None:
        subprotocols: list[str] = scope.get("subprotocols", [])  # of a WebSocket
        offered = [each for each in subprotocols if each.startswith(TICKET_PREFIX)]
        if not offered:
            return None
        ticket = self._tickets.redeem(offered[0].removeprefix(TICKET_PREFIX))
        if ticket is None or not any(digest_of(each) in ticket.cookies for each in self._cookies(scope)):
            raise unauthorized(
                "this ticket was used, has expired, or belongs to another session: ask for a new one",
                "bad-ticket",
            )
        return [ticket.session]

    def _check_host(self, scope: HttpScope) -> None:
        own = self.browser.own_name
        if not self.browser.url or (own and requested_host(scope)[0] != own):
            raise unauthorized(f"sessions are valid only at {self.browser.url or 'a port for browsers'}")

    async def _claims(self, scope: HttpScope, row: Token) -> Claims:
        account = await self._checked(row)
        if row.parent_id is None:
            return Claims(account, "session", address_of(scope), session=row)
        # Caps are charged to the token that the session was opened with, however many sessions it has.
        principal = await self._tokens.by_id(row.parent_id)
        if principal is None:
            raise _ended()
        return Claims(account, "session", address_of(scope), principal, Scope.of(row), session=row)

    async def _checked(self, row: Token) -> Account:
        try:
            return await self._tokens.checked(row)
        except ProblemError as problem:
            raise _ended() if problem.status == 401 else problem from None  # noqa: PLR2004

    # Sign-in

    def check_place(self, scope: HttpScope) -> None:
        """Raises ProblemError where a session could not be used."""
        if not self.browser.url:
            raise ProblemError(409, "no-browser-access", self.browser.closed)
        if peer_of(scope) is not None:
            raise ProblemError(
                409, "no-browser-access", "sessions are for browsers, which do not use the unix socket"
            )
        own = self.browser.own_name
        if own and requested_host(scope)[0] != own:
            raise ProblemError(421, "wrong-host", f"sign in at {self.browser.url_for(scope)}/ui/")

    def new_code(self, principal: Principal) -> str:
        return self._links.issue(principal.user, principal)

    async def open_by_code(self, scope: HttpScope, code: str, only_user: str | None = None) -> Opened:
        """`only_user`: a link of another user is refused and stays valid. Raises ProblemError."""
        offered = self._links.look(code)
        if offered is not None and only_user not in {None, offered.user}:
            raise ProblemError(
                409,
                "another-user",
                f"this sign-in link is for {offered.user}, not for {only_user}",
                extras={"user_id": offered.user},
            )
        principal = self._links.redeem(code)
        if principal is None:
            raise self._refusal(
                scope, "sign-in code", "this sign-in link was used or has expired: `tgpu web` makes a new one"
            )
        token = None
        if principal.token_id is not None:
            token = await self._tokens.by_id(principal.token_id)
            if token is None:
                raise unauthorized("the token that made this sign-in link was revoked")
            await self._tokens.checked(token)
        elif await self._accounts.by_name(principal.user) is None:
            raise forbidden(f"{principal.user} has no account on this machine any more")
        return await self._open(scope, principal.user, token)

    async def open_by_token(self, scope: HttpScope, text: str) -> Opened:
        """Raises ProblemError."""
        token = await self._tokens.known(digest_of(text))
        if token is None:
            raise self._refusal(
                scope, "token", "this token is not known here, or was revoked: `tgpu token create` makes one"
            )
        await self._tokens.checked(token)
        return await self._open(scope, token.user, token)

    def _refusal(self, scope: HttpScope, what: str, detail: str) -> ProblemError:
        """Wrong guesses of an address do not keep out a right one from the same address."""
        address = address_of(scope)
        if self._failures.is_over(address):
            return self._failures.refusal(address, what)
        self._failures.failed(address)
        return unauthorized(detail)

    async def _open(self, scope: HttpScope, user: str, token: Token | None) -> Opened:
        self._count_sign_in(user)
        cookie, page_key = secrets.token_urlsafe(_HALF_BYTES), secrets.token_urlsafe(_HALF_BYTES)
        now_ms = self._now_ms()
        ends = [now_ms + self._lifetime_ms]
        if token is not None and token.expires_ms is not None:
            ends.append(token.expires_ms)
        row = Token(
            token_id=0,
            user=user,
            role=Role.ADMIN.word if token is None else token.role,
            digest=self._digest(cookie, page_key),
            note=NOTE,
            created_ms=now_ms,
            expires_ms=min(ends),
            tenant_id=None if token is None else token.tenant_id,
            actions=frozenset() if token is None else token.actions,
            highest_class=None if token is None else token.highest_class,
            parent_id=None if token is None else token.token_id,
        )
        actor = Actor(user, "session", address_of(scope), row.parent_id)
        made = await self._store.create_token(row, actor, now_ms)
        await self._end_oldest(made, actor)
        return Opened(made, page_key, self._set_cookie(cookie, (min(ends) - now_ms) // 1000))

    def _count_sign_in(self, user: str) -> None:
        """Each one writes to the store. Raises ProblemError."""
        if self._sign_ins.is_over(user):
            wait_s = self._sign_ins.wait_s(user)
            raise ProblemError(
                429,
                "too-many-requests",
                f"{user} has signed in {MOST_SIGN_INS} times within a minute; try again in {wait_s} s",
                headers={"Retry-After": str(wait_s)},
            )
        self._sign_ins.count(user)

    async def _end_oldest(self, made: Token, actor: Actor) -> None:
        now_ms = self._now_ms()
        of_user = sorted(
            (row.token_id, row.parent_id)
            for row in await self._store.tokens()
            if row.is_session and row.user == made.user and not row.has_ended(now_ms)
        )
        alike = [token_id for token_id, parent_id in of_user if parent_id == made.parent_id]
        too_many = {*alike[:-MOST_SESSIONS], *(token_id for token_id, _ in of_user[:-MOST_OF_USER])}
        for token_id in sorted(too_many):
            await self.close(token_id, actor)

    async def close(self, token_id: int, actor: Actor) -> None:
        await self._store.revoke_token(token_id, actor, self._now_ms())
        self._tokens.forget_all()

    # Tickets

    def new_ticket(self, scope: HttpScope, session: Token) -> str:
        cookies = frozenset(map(digest_of, self._cookies(scope)))
        return self._tickets.issue(session.digest, _Ticket(session.digest, cookies))

    # Cookies

    @property
    def removed_cookie(self) -> str:
        """The value of Set-Cookie that makes the browser forget it."""
        return self._set_cookie("", 0)

    @property
    def _cookie_name(self) -> str:
        return _SECURE_COOKIE if self.browser.is_encrypted else _COOKIE

    def _set_cookie(self, value: str, max_age_s: int) -> str:
        secure = "; Secure" if self.browser.is_encrypted else ""
        return f"{self._cookie_name}={value}; Path=/; Max-Age={max_age_s}; HttpOnly; SameSite=Strict{secure}"

    def _cookies(self, scope: HttpScope) -> list[str]:
        return list(_values_of(scope, self._cookie_name))[:_MOST_COOKIES]

    def _digest(self, cookie: str, page_key: str) -> str:
        mac = hmac.new(self._salt, f"{cookie}.{page_key}".encode(), hashlib.sha256).hexdigest()
        return (_LASTING if self.browser.is_encrypted else _of_process(self.browser.server_id)) + mac


_LASTING = f"{SESSION_PREFIX}:"
_PLAIN = f"{SESSION_PREFIX}-process:"


def _of_process(server_id: str) -> str:
    return f"{_PLAIN}{server_id}:"


async def end_sessions_of_earlier_processes(store: Store, server_id: str, now_ms: int) -> None:
    """Their salt is lost with the process, so they cannot be used again; the list of tokens says so."""
    for row in await store.tokens():
        if row.digest.startswith(_of_process(server_id)) and not row.revoked:
            await store.revoke_token(row.token_id, Actor(row.user, "server"), now_ms)


def _values_of(scope: HttpScope, name: str) -> Iterator[str]:
    for header, line in scope["headers"]:
        if header == b"cookie":
            for pair in line.decode("latin-1").split(";"):
                key, _, value = pair.strip().partition("=")
                if key == name and value:
                    yield value


def _ended() -> ProblemError:
    return unauthorized("this session has ended: sign in again", "session-ended")
