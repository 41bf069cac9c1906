"""Jobs as callers: by key or on the unix socket, narrowed by the token that they were submitted with."""

from http import HTTPStatus

from starlette.types import Scope as HttpScope

from tgpu.api.accounts import Account, Accounts
from tgpu.api.authenticators import BearerToken, Claims, address_of, bearer_of, unauthorized
from tgpu.api.peercred import peer_of
from tgpu.api.problems import ProblemError, forbidden
from tgpu.api.roles import Scope
from tgpu.domain.access import Action, Role
from tgpu.domain.ids import AttemptId
from tgpu.protocol.job_keys import PREFIX, JobKeys
from tgpu.runner.process_origin import MOST_ANCESTORS
from tgpu.store.access_port import AttemptHolder, Token
from tgpu.store.port import Store

_ACTIONS = frozenset(Action) - {Action.MANAGE}
"""A job makes nothing that outlives it but jobs: no tokens, no secrets, no tenants."""


class JobKey:
    """The signature is looked at first, so a key that was made up costs no look at the store; then the
    attempt is read for every request: once it is over, its key is worthless."""

    def __init__(self, store: Store, accounts: Accounts, keys: JobKeys | None, tokens: BearerToken) -> None:
        """`keys`: None if this cluster gives none. `tokens`: who knows which of them are still good."""
        self._store, self._accounts, self._keys, self._tokens = store, accounts, keys, tokens

    async def caller(self, scope: HttpScope) -> Claims | None:
        text = bearer_of(scope)
        if text is None or not text.startswith(PREFIX):
            return None
        if self._keys is None:
            raise _worthless("jobs have no keys here (the setting job_keys is off): send a token")
        attempt_id = self._keys.attempt_of(text)
        if attempt_id is None:
            raise _worthless("this is no key of a job of this cluster; jobs find theirs in TGPU_TOKEN")
        holder = await self._store.attempt_holder(attempt_id)
        if holder is None:
            raise _worthless(f"the key of {attempt_id} is worthless: that attempt is over, or its node lost")
        return await self.claims(scope, attempt_id, holder)

    async def claims(self, scope: HttpScope, attempt_id: AttemptId, holder: AttemptHolder) -> Claims:
        account, job_id = await self._account(attempt_id, holder), attempt_id.job_id
        left = scope_of(holder.token)
        if not left.actions:  # which would mean all of them
            raise forbidden(f"the token that job {job_id} was submitted with leaves nothing to a job")
        return Claims(account, f"job {job_id}", address_of(scope), holder.token, left, job_id)

    async def _account(self, attempt_id: AttemptId, holder: AttemptHolder) -> Account:
        if holder.token is not None:
            try:
                await self._tokens.checked(holder.token)
            except ProblemError as problem:
                raise _ends_with(attempt_id.job_id, problem) from None
        account = await self._accounts.by_name(holder.user)
        if account is None:
            raise forbidden(
                f"job {attempt_id.job_id} is of {holder.user}, who has no account on this machine any more"
            )
        return account


class JobOnSocket:
    """A process of a job that was submitted with a token has no more on the socket than that token leaves it,
    as by its key. Other jobs are their users there, as is every process that is of no job."""

    def __init__(self, store: Store, accounts: Accounts, keys: JobKey) -> None:
        self._store, self._accounts, self._keys = store, accounts, keys

    async def caller(self, scope: HttpScope) -> Claims | None:
        peer = peer_of(scope)
        if peer is None:
            return None
        if peer.is_gone:
            raise forbidden(
                f"process {peer.pid}, which opened this connection, ended before it was known whether it "
                f"belongs to a job, or has more than {MOST_ANCESTORS} ancestors: keep it running until the "
                "answer has come, and nest fewer processes"
            )
        attempt_id = peer.attempt_in(self._store.cluster_id)
        if attempt_id is None:
            return None
        holder = await self._store.attempt_holder(attempt_id)
        if holder is None:
            raise _worthless(f"this process is of {attempt_id}, and that attempt is over, or its node lost")
        account = await self._accounts.by_uid(peer.uid)
        if holder.token is None or account is None or account.name != holder.user:
            return None  # whoever became another user in a job has what that user has
        return await self._keys.claims(scope, attempt_id, holder)


def scope_of(token: Token | None) -> Scope:
    """What the token leaves of a user's rights: a job never acts as an operator or administrator."""
    own = Scope(Role.USER) if token is None else Scope.of(token)
    return Scope(min(own.role, Role.USER), own.tenant_id, (own.actions or _ACTIONS) & _ACTIONS)


def _worthless(detail: str) -> ProblemError:
    return unauthorized(detail, "job-key")


def _ends_with(job_id: int, problem: ProblemError) -> ProblemError:
    detail = f"job {job_id} speaks by the token that it was submitted with, and {problem.detail}"
    return _worthless(detail) if problem.status == HTTPStatus.UNAUTHORIZED else forbidden(detail)
