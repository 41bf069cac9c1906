"""Tokens that let new nodes in: made by administrators, shown once, kept only as digests."""

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.audit_note import note
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edge import optional_rfc3339, rfc3339
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.needs import ADMINISTER, SEE_ALL
from tgpu.api.problems import not_found, unprocessable
from tgpu.api.reply import json_reply, no_content
from tgpu.domain.label_rules import label
from tgpu.domain.node import NODE_NAME, NOT_NODE_NAMES
from tgpu.domain.node_limits import label_limits, network
from tgpu.domain.quantities import BadQuantityError, whole
from tgpu.protocol import join_tokens
from tgpu.store.cluster_port import JoinToken

_DEFAULT_S = 3600
_MAX_S = 366 * 24 * 3600
_MAX_USES = 1_000_000
_MAX_NOTE = 200
_MAX_DIGITS = 15
Given = TypeVar("Given")
Kept = TypeVar("Kept")


class JoinTokenAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A join token to be made; by default for one node, for an hour."""

    expires_in_s: Annotated[
        int | float, Meta(extra_json_schema={"minimum": 1, "maximum": _MAX_S}, examples=[3600])
    ] = _DEFAULT_S
    uses: Annotated[
        int | float | None,
        Meta(
            description="How many nodes it lets in; null: any number.",
            extra_json_schema={"minimum": 1, "maximum": _MAX_USES},
        ),
    ] = 1
    pool: Annotated[
        str | None, Meta(description="Where nodes that join by it belong, whatever they say.")
    ] = None
    note: Annotated[str, Meta(description="What it is for.", extra_json_schema={"maxLength": _MAX_NOTE})] = ""
    node_name: Annotated[
        str | None, Meta(description="The only node that may join by it.", examples=["n1"])
    ] = None
    labels: Annotated[
        list[str] | None,
        Meta(
            description="The labels that its nodes may have: `key=value`, or `key` for any value; null: any.",
            examples=[["zone=a", "ssd"]],
        ),
    ] = None
    serves: Annotated[
        str | None, Meta(description="The only user whose jobs its nodes run; null: any.", examples=["ann"])
    ] = None
    address: Annotated[
        str | None,
        Meta(
            description="The network from which its nodes join and connect; null: any.",
            examples=["10.0.0.0/24"],
        ),
    ] = None


class JoinTokenOut(msgspec.Struct, kw_only=True):
    """A join token, without the token."""

    token_id: int
    note: str
    pool: str | None
    created_by: str
    created_at: str
    expires_at: str | None
    uses_left: int | None
    revoked: bool
    node_name: str | None
    labels: list[str] | None
    serves: str | None
    address: str | None


class NewJoinToken(JoinTokenOut, kw_only=True):
    """A join token that was just made: `token` is never shown again."""

    token: str


class JoinTokenList(msgspec.Struct, kw_only=True):
    """Every join token, used, expired and revoked ones too."""

    join_tokens: list[JoinTokenOut]


_asked = msgspec.json.Decoder(JoinTokenAsked)


def _fields(token: JoinToken) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "note": token.note,
        "pool": token.pool,
        "created_by": token.created_by,
        "created_at": rfc3339(token.created_ms),
        "expires_at": optional_rfc3339(token.expires_ms),
        "uses_left": token.uses_left,
        "revoked": token.revoked,
        "node_name": token.node_name,
        "labels": None if token.labels is None else list(token.labels),
        "serves": token.serves,
        "address": token.address,
    }


async def create(call: Call) -> Response:
    asked, services = decode(_asked, await read_body(call, MIB)), call.services
    if len(asked.note) > _MAX_NOTE or not (asked.note.isprintable() or not asked.note):
        raise unprocessable("note", f"note must be at most {_MAX_NOTE} printable characters")
    now_ms, secret = services.now_ms(), join_tokens.new_secret()
    made = await services.store.create_join_token(
        JoinToken(
            token_id=0,
            digest=join_tokens.digest_of(secret),
            note=asked.note,
            created_by=call.caller.user,
            created_ms=now_ms,
            expires_ms=now_ms + 1000 * _at_least_one("expires_in_s", asked.expires_in_s, _MAX_S),
            uses_left=None if asked.uses is None else _at_least_one("uses", asked.uses, _MAX_USES),
            pool=_checked("pool", label, asked.pool),
            node_name=_checked("node_name", _node_name, asked.node_name),
            labels=_checked("labels", label_limits, asked.labels),
            serves=_checked("serves", label, asked.serves),
            address=_checked("address", network, asked.address),
        )
    )
    await note(call, "join-token.create", str(made.token_id), after=JoinTokenOut(**_fields(made)))
    token = join_tokens.written(secret, services.ca_pem)
    return json_reply(NewJoinToken(token=token, **_fields(made)), 201, {"Cache-Control": "no-store"})


def _at_least_one(name: str, value: float, most: int) -> int:
    try:
        number = whole(name, value, most)
    except BadQuantityError as error:
        raise unprocessable(name, str(error)) from None
    if number < 1:
        raise unprocessable(name, f"{name} must be at least 1")
    return number


def _checked(name: str, check: Callable[[str, Given], Kept], given: Given | None) -> Kept | None:
    try:
        return None if given is None else check(name, given)
    except BadQuantityError as error:
        raise unprocessable(name, str(error)) from None


def _node_name(name: str, text: str) -> str:
    if not NODE_NAME.fullmatch(text) or text in NOT_NODE_NAMES:
        raise BadQuantityError(
            f"{name} must be 1 to 253 letters, digits, dots, dashes and underscores, and no order (drain)"
        )
    return text


async def list_all(call: Call) -> Response:
    tokens = await call.services.store.join_tokens()
    return json_reply(JoinTokenList(join_tokens=[JoinTokenOut(**_fields(token)) for token in tokens]))


async def revoke(call: Call) -> Response:
    written = call.path("token_id")
    is_number = written.isascii() and written.isdigit() and len(written) <= _MAX_DIGITS
    if not is_number or not await call.services.store.revoke_join_token(int(written)):
        # What was written may be the token itself: a secret is not repeated.
        raise not_found("there is no join token with that id; `tgpu nodes join-tokens` lists them")
    await note(call, "join-token.revoke", written)
    return no_content()


_EXAMPLE: dict[str, object] = {
    "token_id": 1,
    "note": "rack 7",
    "pool": None,
    "created_by": "root",
    "created_at": "2030-01-31T12:00:00.000Z",
    "expires_at": "2030-01-31T13:00:00.000Z",
    "uses_left": 1,
    "revoked": False,
    "node_name": None,
    "labels": None,
    "serves": None,
    "address": None,
}

_TOKEN_ID = Param(
    "token_id", "Its number.", {"type": "integer", "minimum": 1}, 1, where="path", required=True
)
ENDPOINTS = (
    Endpoint(
        "GET", "/join-tokens", list_all, SEE_ALL, "nodes",
        "List join tokens", "Every token that lets nodes in; never their secrets.",
        {200: Answer("The join tokens.", JoinTokenList, {"join_tokens": [_EXAMPLE]})},
    ),
    Endpoint(
        "POST", "/join-tokens", create, ADMINISTER, "nodes",
        "Make a join token",
        "With it `tgpu agent --join` makes a node of its machine. It is shown once, and carries the "
        "fingerprint of the cluster's own authority, so that the node knows the servers.",
        {201: Answer("Made.", NewJoinToken, {**_EXAMPLE, "token": "tgpujoin_….0f1e2d3c…"})},
        errors=(413, 422),
        body=Body(
            (JoinTokenAsked,),
            {
                "for a rack": {"uses": 16, "note": "rack 7", "pool": "training"},
                "for one machine": {"node_name": "n1", "address": "10.0.0.7", "labels": ["zone=a"]},
            },
        ),
    ),
    Endpoint(
        "DELETE", "/join-tokens/{token_id}", revoke, ADMINISTER, "nodes",
        "Revoke a join token", "It lets nobody in any more; nodes that joined by it stay.",
        {204: Answer("Revoked.")},
        errors=(404,),
        params=(_TOKEN_ID,),
    ),
)  # fmt: skip
