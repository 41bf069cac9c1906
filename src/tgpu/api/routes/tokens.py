"""Keys for callers over TCP: shown once when made, kept only as digests."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from starlette.responses import Response

from tgpu.api.access import shown_tenants
from tgpu.api.authenticators import digest_of, new_token
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.identity import Caller
from tgpu.api.needs import LOOK, MAKE_TOKEN
from tgpu.api.problems import forbidden, not_found, unprocessable
from tgpu.api.reply import json_reply, no_content
from tgpu.api.roles import Scope, at_least
from tgpu.api.token_form import (
    ListedToken,
    NewToken,
    TokenAsked,
    TokenList,
    asked_token,
    is_capped,
    token_fields,
    token_to_make,
)
from tgpu.domain.access import Role
from tgpu.store.access_port import Token

_MAX_DIGITS = 15


async def list_tokens(call: Call) -> Response:
    caller, tokens = call.caller, await call.services.store.tokens()
    seen = [token for token in tokens if caller.is_admin or token.user == caller.user]
    orphaned = await _orphaned(call, tokens)
    shown = [ListedToken(has_account=token.token_id not in orphaned, **token_fields(token)) for token in seen]
    return json_reply(TokenList(tokens=shown))


async def _orphaned(call: Call, tokens: Sequence[Token]) -> set[int]:
    """Those whose user has no account here any more, and what was made with them, and with those."""
    users = sorted({token.user for token in tokens})
    accounts = await asyncio.gather(*map(call.services.accounts.by_name, users))
    gone = {user for user, account in zip(users, accounts, strict=True) if account is None}
    found: set[int] = set()
    for token in sorted(tokens, key=lambda each: each.token_id):  # a token is older than what it made
        if token.user in gone or token.parent_id in found:
            found.add(token.token_id)
    return found


async def create_token(call: Call) -> Response:
    asked, services = decode(asked_token, await read_body(call, MIB)), call.services
    text, now_ms = new_token(), services.now_ms()
    token = token_to_make(asked, call.caller.user, digest_of(text), now_ms)
    _check_within_own(token, call.caller)
    await _check_user(call, token)
    within = _within_parent(token, call.caller)
    made = await services.store.create_token(within, call.actor, now_ms)
    is_shorter = made.expires_ms != token.expires_ms
    answer = NewToken(token=text, ends_with_parent=is_shorter, **token_fields(made))
    return json_reply(answer, 201, {"Cache-Control": "no-store"})


def _check_within_own(token: Token, caller: Caller) -> None:
    """A token that is made with a token is no wider than that."""
    if token.user != caller.user and not caller.is_admin:
        raise forbidden("user_id: only administrators make tokens for others; leave it out")
    own = caller.token
    if own is not None and is_capped(own):
        raise forbidden("this token has a cap, so it makes no tokens: use the socket, or one without")
    scope = caller.rights.scope
    if scope is not None and not caller.rights.reaches(token.tenant_id or ""):
        raise forbidden(f"tenant_id: this token is good only in {scope.tenant_id}: name it, or one below it")
    if scope is not None and scope.actions and not (token.actions and token.actions <= scope.actions):
        good_for = ", ".join(sorted(scope.actions))
        raise forbidden(f"actions: this token is good only for {good_for}: name some of these")
    role, highest = Scope.of(token).role, caller.rights.highest or Role.VIEWER
    if role > highest:
        raise forbidden(f"role: a token may grant no more than you have, which is {highest.word}")


async def _check_user(call: Call, token: Token) -> None:
    """It would grant nothing beyond what its user has; who asks for more has misunderstood."""
    account = await call.services.accounts.by_name(token.user)
    if account is None:
        raise unprocessable("user_id", f"user_id: there is no account {token.user[:80]!r} on this machine")
    if token.tenant_id is not None and not await _is_known(call, token.tenant_id):
        raise unprocessable(
            "tenant_id",
            f"tenant_id: there is no tenant {token.tenant_id[:100]!r} that you may know of; `tgpu tenants` "
            "lists them",
        )
    scope = Scope.of(token)
    rights = await call.identity.rights_of(account, scope)
    if not at_least(rights.highest, scope.role):
        where = "anywhere" if token.tenant_id is None else f"in {token.tenant_id}"
        raise unprocessable(
            "role", f"role: {token.user} has not the role {scope.role.word} {where}; give it to them first"
        )


async def _is_known(call: Call, tenant_id: str) -> bool:
    """To the caller: one that is hidden from them is refused in the same words as one that is not there."""
    if tenant_id not in (await call.book.pages()).tenants:
        pages = await call.book.fresh_pages()
        if tenant_id not in pages.tenants:
            return False
    shown = await shown_tenants(call)
    return shown is None or tenant_id in shown


def _within_parent(token: Token, caller: Caller) -> Token:
    """A token made with a token does not outlive it: a stolen one cannot prolong itself."""
    parent = caller.token
    if parent is None:
        return token
    ends = [each.expires_ms for each in (token, parent) if each.expires_ms is not None]
    return replace(token, parent_id=parent.token_id, expires_ms=min(ends, default=None))


async def revoke_token(call: Call) -> Response:
    token, services = await _own_token(call), call.services
    await services.store.revoke_token(token.token_id, call.actor, services.now_ms())
    call.identity.forget_tokens()
    return no_content()


async def _own_token(call: Call) -> Token:
    written, caller = call.path("token_id"), call.caller
    is_number = written.isascii() and written.isdigit() and len(written) <= _MAX_DIGITS
    tokens = {token.token_id: token for token in await call.services.store.tokens()} if is_number else {}
    token = tokens.get(int(written)) if is_number else None
    may = caller.is_admin or (
        token is not None and token.user == caller.user and caller.rights.reaches(token.tenant_id or "")
    )
    if token is None or not may:
        # What was written may be the token itself: a secret is not repeated.
        raise not_found("you have no token with that id; `tgpu token list` shows yours")
    return token


_EXAMPLE: dict[str, object] = {
    "token_id": 1,
    "user_id": "alice",
    "role": "user",
    "note": "notebook",
    "created_at": "2030-01-31T12:00:00.000Z",
    "expires_at": "2030-03-02T12:00:00.000Z",
    "revoked": False,
    "tenant_id": "lab/vision",
    "actions": ["read", "submit"],
    "highest_class": "low",
    "jobs_left": 100,
    "gpu_hours_left": 8,
    "parent_token_id": None,
}
_TOKEN_ID = Param(
    "token_id", "Its number.", {"type": "integer", "minimum": 1}, 1, where="path", required=True
)
ENDPOINTS = (
    Endpoint(
        "GET", "/tokens", list_tokens, LOOK, "tokens",
        "List tokens", "The caller's tokens; for an administrator everybody's; never their secrets.",
        {200: Answer("The tokens.", TokenList, {"tokens": [{**_EXAMPLE, "has_account": True}]})},
    ),
    Endpoint(
        "POST", "/tokens", create_token, MAKE_TOKEN, "tokens",
        "Make a token",
        "For calls over TCP. It is shown once. It grants no more than its user has when it is used, and "
        "less where it is narrowed down; one that was made with a token is no wider and lives no longer.",
        {201: Answer("Made.", NewToken, {**_EXAMPLE, "token": "tgpu_…", "ends_with_parent": False})},
        errors=(409, 413, 422),
        adds_data=True,
        body=Body(
            (TokenAsked,),
            {
                "for a notebook": {"note": "notebook", "expires_in_s": 86400},
                "for CI": {"note": "CI", "actions": ["read", "submit"], "highest_class": "low", "jobs": 100},
            },
        ),
    ),
    Endpoint(
        "DELETE", "/tokens/{token_id}", revoke_token, MAKE_TOKEN, "tokens",
        "Revoke a token",
        "It is refused from now on, by every server, and so are those that were made with it.",
        {204: Answer("Revoked.")},
        errors=(404,), params=(_TOKEN_ID,),
    ),
)  # fmt: skip
