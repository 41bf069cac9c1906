"""Who is calling and what they may do: the first authenticator that knows them vouches for them."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.types import Scope as HttpScope

from tgpu.api.access_book import Book
from tgpu.api.accounts import Account, Accounts
from tgpu.api.auth.browser_access import BrowserAccess
from tgpu.api.auth.web_session import WebSessions
from tgpu.api.authenticators import Authenticator, BearerToken, SocketPeer, unauthorized
from tgpu.api.job_key import JobKey, JobOnSocket
from tgpu.api.roles import Rights, Scope
from tgpu.config.settings import Settings
from tgpu.domain.access import Actor, Role
from tgpu.protocol.job_keys import JobKeys
from tgpu.store.access_port import Token
from tgpu.store.port import Store


@dataclass(frozen=True, slots=True)
class Caller:
    account: Account
    rights: Rights
    via: str
    address: str = ""
    token: Token | None = None
    job_id: int | None = None
    """The job that calls, if it is one."""
    session: Token | None = None
    """The browser's session that calls, if it is one; `token` is then the token that it was opened with."""

    @property
    def shown(self) -> str:
        """What they showed for themselves, in words."""
        return "this token" if self.job_id is None else f"the key of job {self.job_id}"

    @property
    def user(self) -> str:
        return self.account.name

    @property
    def is_admin(self) -> bool:
        return self.rights.role_everywhere is Role.ADMIN

    @property
    def actor(self) -> Actor:
        shown = self.session or self.token
        return Actor(self.user, self.via, self.address, None if shown is None else shown.token_id)


class Identity:
    def __init__(  # noqa: PLR0917  its parts
        self,
        store: Store,
        settings: Settings,
        accounts: Accounts,
        now_ms: Callable[[], int],
        book: Book,
        keys: JobKeys | None = None,
        browser: BrowserAccess | None = None,
    ) -> None:
        self._accounts, self.book = accounts, book
        self._admins = frozenset(settings.admins)
        self._own_uid = os.geteuid()
        self._tokens = BearerToken(store, accounts, now_ms, shared=bool(settings.store))
        self.sessions = WebSessions(
            store, accounts, self._tokens, browser or BrowserAccess(), now_ms, settings.web_session_hours
        )
        # Who brings a token means to be judged by it, also on the socket, where it may narrow them down.
        job_key = JobKey(store, accounts, keys, self._tokens)
        self._authenticators: Sequence[Authenticator] = (
            job_key,
            self._tokens,
            self.sessions,
            JobOnSocket(store, accounts, job_key),
            SocketPeer(accounts),
        )

    def forget_tokens(self) -> None:
        """Called once one is revoked, and those that were made with it."""
        self._tokens.forget_all()

    async def changed(self) -> None:
        """Called once this server has changed tenants or members, and perhaps tokens with them: before that
        is answered, it holds here."""
        self._tokens.forget_all()
        await self.book.fresh_pages()

    async def caller(self, scope: HttpScope) -> Caller:
        """Raises ProblemError if nobody vouches for the caller."""
        for authenticator in self._authenticators:
            claims = await authenticator.caller(scope)
            if claims is not None:
                rights = await self.rights_of(claims.account, claims.scope)
                return Caller(
                    claims.account,
                    rights,
                    claims.via,
                    claims.address,
                    claims.token,
                    claims.job_id,
                    claims.session,
                )
        raise unauthorized("send a token: `Authorization: Bearer tgpu_…` (`tgpu token create` makes one)")

    async def rights_of(self, account: Account, scope: Scope | None = None) -> Rights:
        """What they have now: who is an administrator no longer keeps no back door in a token."""
        book = self.book
        groups = await self._accounts.groups_of(account) if book.needs_groups else frozenset[str]()
        is_admin = account.uid in (0, self._own_uid) or account.name in self._admins
        return book.rights(await book.pages(), account.name, groups, is_admin=is_admin, scope=scope)
