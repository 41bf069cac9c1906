"""Keys for callers over TCP: shown once when made, kept only as digests."""

from typing import Annotated, Any

import msgspec
from litestar import Response
from msgspec import Meta

from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edge import optional_rfc3339, rfc3339
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.identity import ROLES, Caller, Identity, Role, digest_of, new_token
from tgpu.api.problems import forbidden, not_found, unprocessable
from tgpu.api.reply import json_reply
from tgpu.domain.quantities import BadQuantityError, whole
from tgpu.store.port import Token

_DEFAULT_S = 30 * 24 * 3600
_MAX_S = 366 * 24 * 3600
_MAX_NOTE = 200
_MAX_ID = 2**53


class TokenAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A token to be made; by default for the caller, with the role `user`, for 30 days."""

    note: Annotated[str, Meta(description="What it is for.", extra_json_schema={"maxLength": _MAX_NOTE})] = ""
    role: Annotated[str, Meta(extra_json_schema={"enum": sorted(ROLES)})] = Role.USER.word
    expires_in_s: Annotated[
        int | float, Meta(extra_json_schema={"minimum": 1, "maximum": _MAX_S}, examples=[86400])
    ] = _DEFAULT_S
    user_id: Annotated[str | None, Meta(description="For somebody else: administrators only.")] = None


class TokenOut(msgspec.Struct, kw_only=True):
    """A token, without the token."""

    token_id: int
    user_id: str
    role: str
    note: str
    created_at: str
    expires_at: str | None
    revoked: bool


class NewToken(TokenOut, kw_only=True):
    """A token that was just made: `token` is never shown again."""

    token: str


class TokenList(msgspec.Struct, kw_only=True):
    """The caller's tokens; for an administrator everybody's."""

    tokens: list[TokenOut]


_asked = msgspec.json.Decoder(TokenAsked)


def _fields(token: Token) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "user_id": token.user,
        "role": token.role,
        "note": token.note,
        "created_at": rfc3339(token.created_ms),
        "expires_at": optional_rfc3339(token.expires_ms),
        "revoked": token.revoked,
    }


async def list_tokens(call: Call) -> Response[Any]:
    caller, tokens = call.caller, await call.services.store.tokens()
    seen = [token for token in tokens if caller.is_admin or token.user == caller.user]
    return json_reply(TokenList(tokens=[TokenOut(**_fields(token)) for token in seen]))


class TokenMaker:
    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def create(self, call: Call) -> Response[Any]:
        asked, caller, now_ms = (
            decode(_asked, await read_body(call, MIB)),
            call.caller,
            call.services.now_ms(),
        )
        if len(asked.note) > _MAX_NOTE or not (asked.note.isprintable() or not asked.note):
            raise unprocessable("note", f"note must be at most {_MAX_NOTE} printable characters")
        user = asked.user_id if asked.user_id is not None else caller.user
        await self._check_role(call, asked.role, user)
        text = new_token()
        made = await call.services.store.create_token(
            Token(
                token_id=0,
                user=user,
                role=asked.role,
                digest=digest_of(text),
                note=asked.note,
                created_ms=now_ms,
                expires_ms=_expiry_ms(asked, caller, now_ms),
            )
        )
        return json_reply(NewToken(token=text, **_fields(made)), 201, {"Cache-Control": "no-store"})

    async def _check_role(self, call: Call, role: str, user: str) -> None:
        if role not in ROLES:
            raise unprocessable("role", f"role must be one of {', '.join(ROLES)}; got {role[:40]!r}")
        if user != call.caller.user and not call.caller.is_admin:
            raise forbidden("user_id: only administrators make tokens for others; leave it out")
        if ROLES[role] > call.caller.role:
            raise forbidden(
                f"role: a token may grant no more than you have, which is {call.caller.role.word}"
            )
        account = await call.services.accounts.by_name(user)
        if account is None:
            raise unprocessable("user_id", f"user_id: there is no account {user[:80]!r} on this machine")
        if ROLES[role] > self._identity.role_of(account):
            raise unprocessable(
                "role", f"role: {user} is no administrator; add them to the setting `admins` first"
            )


def _expiry_ms(asked: TokenAsked, caller: Caller, now_ms: int) -> int:
    try:
        lasts_s = whole("expires_in_s", asked.expires_in_s, _MAX_S)
    except BadQuantityError as error:
        raise unprocessable("expires_in_s", str(error)) from None
    if lasts_s < 1:
        raise unprocessable("expires_in_s", "expires_in_s must be at least 1")
    expiry_ms = now_ms + 1000 * lasts_s
    # A token made with a token does not outlive it: a stolen one cannot prolong itself.
    return expiry_ms if caller.token_expires_ms is None else min(expiry_ms, caller.token_expires_ms)


class TokenRevoker:
    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    async def revoke(self, call: Call) -> Response[Any]:
        token = await _own_token(call)
        await call.services.store.revoke_token(token.token_id)
        self._identity.forget(token.digest)
        return Response(b"", status_code=204, media_type="application/json")


async def _own_token(call: Call) -> Token:
    written, caller = call.path("token_id"), call.caller
    token_id = int(written) if written.isascii() and written.isdigit() and len(written) < 16 else _MAX_ID  # noqa: PLR2004  keeps int() cheap
    tokens = {token.token_id: token for token in await call.services.store.tokens()}
    token = tokens.get(token_id)
    if token is None or not (caller.is_admin or token.user == caller.user):
        # What was written may be the token itself: a secret is not repeated.
        raise not_found("you have no token with that id; `tgpu token list` shows yours")
    return token


_TOKEN_EXAMPLE: dict[str, object] = {
    "token_id": 1,
    "user_id": "alice",
    "role": "user",
    "note": "notebook",
    "created_at": "2030-01-31T12:00:00.000Z",
    "expires_at": "2030-03-02T12:00:00.000Z",
    "revoked": False,
}


def endpoints(identity: Identity) -> tuple[Endpoint, ...]:
    token_id = Param(
        "token_id", "Its number.", {"type": "integer", "minimum": 1}, 1, where="path", required=True
    )
    return (
        Endpoint(
            "GET", "/tokens", list_tokens, Role.VIEWER, "tokens",
            "List tokens", "The caller's tokens; for an administrator everybody's; never their secrets.",
            {200: Answer("The tokens.", TokenList, {"tokens": [_TOKEN_EXAMPLE]})},
        ),
        Endpoint(
            "POST", "/tokens", TokenMaker(identity).create, Role.USER, "tokens",
            "Make a token",
            "For calls over TCP. It is shown once. It grants no more than its user has, and one that was "
            "made with a token does not outlive it.",
            {201: Answer("Made.", NewToken, {**_TOKEN_EXAMPLE, "token": "tgpu_…"})},
            errors=(413, 422),
            body=Body((TokenAsked,), {"for a notebook": {"note": "notebook", "expires_in_s": 86400}}),
        ),
        Endpoint(
            "DELETE", "/tokens/{token_id}", TokenRevoker(identity).revoke, Role.USER, "tokens",
            "Revoke a token", "It is refused from now on.",
            {204: Answer("Revoked.")},
            errors=(404,), params=(token_id,),
        ),
    )  # fmt: skip
