"""How a machine becomes a node: it shows a join token and is given a key of its own."""

import asyncio
import time
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.decode import KIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.failure_limit import FailureLimit
from tgpu.api.known_join_tokens import KnownJoinTokens
from tgpu.api.problems import ProblemError, bad_request, forbidden, not_found, unprocessable
from tgpu.api.reply import json_reply
from tgpu.domain.access import Actor
from tgpu.domain.node import NODE_NAME, NOT_NODE_NAMES
from tgpu.protocol import join_tokens, node_keys
from tgpu.store.cluster_port import (
    Enrolled,
    JoinTokenExpiredError,
    JoinTokenLimitError,
    JoinTokenUsedError,
    UnknownJoinTokenError,
)

_BODY_S = 10.0
_MOST_BYTES = 16 * KIB
_CONNECTED_FOR_S = 2.0
"""How long it is believed who is connected: a rack that joins asks for every node."""


class JoinAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A machine that wants to be a node."""

    token: Annotated[str, Meta(description="From POST /join-tokens; what follows its dot may be left out.")]
    node_id: Annotated[str, Meta(extra_json_schema={"pattern": f"^{NODE_NAME.pattern}$"}, examples=["n1"])]


class Joined(msgspec.Struct, kw_only=True):
    """What makes the machine a node: `key` is never shown again."""

    cluster_id: str
    node_id: str
    key: str
    ca_pem: str | None
    servers: list[str]
    pool: str | None
    approved: bool
    """False: the node gets no work until an administrator approves it."""


_asked = msgspec.json.Decoder(JoinAsked)


class Joining:
    def __init__(self) -> None:
        self._limit = FailureLimit()
        self._known = KnownJoinTokens()
        self._connected: frozenset[str] = frozenset()
        self._looked = float("-inf")

    async def join(self, call: Call) -> Response:
        client = call.request.scope["client"]
        who = client[0] if client else "this machine"
        asked = await _body(call)
        if not NODE_NAME.fullmatch(asked.node_id):
            raise unprocessable(
                "node_id", "node_id must be 1 to 253 letters, digits, dots, dashes and underscores"
            )
        if asked.node_id in NOT_NODE_NAMES:
            raise unprocessable(
                "node_id",
                f"node_id must not be {asked.node_id}, which is an order: give this node another --name",
            )
        key = node_keys.new_key()
        try:
            secret, _ = join_tokens.parse(asked.token)
            if await self._is_a_guess(call, secret, who):
                raise self._limit.refusal(who, "join token")
            if await self._is_connected(call, asked.node_id):
                raise await _name_taken(call, secret, asked.node_id)
            enrolled = await _enrol(call, secret, asked.node_id, key, client[0] if client else "")
        except join_tokens.BadJoinTokenError as error:
            self._limit.failed(who)
            raise unprocessable("token", f"token: {error}") from None
        except UnknownJoinTokenError:
            self._limit.failed(who)
            raise _refused("is not known here, or was revoked") from None
        except JoinTokenExpiredError:
            self._limit.failed(who)
            raise _refused("has expired") from None
        except JoinTokenUsedError:
            self._limit.failed(who)
            raise _refused("has been used: it has let in as many nodes as it may") from None
        except JoinTokenLimitError as error:
            raise forbidden(str(error)) from None
        await _note(call, enrolled, who)
        return _answer(call, enrolled, key)

    async def _is_a_guess(self, call: Call, secret: str, who: str) -> bool:
        """Wrong tokens from one address do not keep out a right one from the same address."""
        if not self._limit.is_over(who):
            return False
        services = call.services
        digest = join_tokens.digest_of(secret)
        return not await self._known.has(digest, services.store, services.now_ms())

    async def _is_connected(self, call: Call, node_id: str) -> bool:
        """A machine that is connected keeps its name, whoever else claims it."""
        now = time.monotonic()
        if now - self._looked > _CONNECTED_FOR_S:
            views = await call.services.live.nodes()
            self._connected = frozenset(view.node.node_id for view in views if view.silent_s is None)
            self._looked = now
        return node_id in self._connected


async def _name_taken(call: Call, secret: str, node_id: str) -> Exception:
    """Which nodes there are is told only to who has a token."""
    digest = join_tokens.digest_of(secret)
    if not any(token.digest == digest for token in await call.services.store.join_tokens()):
        return UnknownJoinTokenError()
    return ProblemError(
        409,
        "node-connected",
        f"a node of that name is connected; give this one another --name, or stop that one and remove it: "
        f"tgpu nodes remove {node_id}",
    )


async def _body(call: Call) -> JoinAsked:
    """Whoever asks has not shown who they are: their words are few, and quickly said."""
    try:
        async with asyncio.timeout(_BODY_S):
            return decode(_asked, await read_body(call, _MOST_BYTES))
    except TimeoutError:
        raise bad_request(f"the request must be whole within {_BODY_S:.0f} s") from None


async def _enrol(call: Call, secret: str, node_id: str, key: str, address: str) -> Enrolled:
    services = call.services
    return await services.store.enrol(
        join_tokens.digest_of(secret),
        node_id,
        node_keys.digest_of(key),
        services.now_ms(),
        address=address,
        approved=services.settings.join_approval == "off",
    )


async def _note(call: Call, enrolled: Enrolled, who: str) -> None:
    """Who holds a join token is nobody the server knows: the node's name stands for them."""
    actor = Actor(enrolled.node_id, "join-token", who)
    now_ms = call.services.now_ms()
    await call.services.store.note(actor, "node.join", enrolled.node_id, "", "", now_ms)


def _answer(call: Call, enrolled: Enrolled, key: str) -> Response:
    services = call.services
    joined = Joined(
        cluster_id=services.store.cluster_id,
        node_id=enrolled.node_id,
        key=key,
        ca_pem=services.ca_pem,
        servers=list(services.servers()),
        pool=enrolled.pool,
        approved=services.settings.join_approval == "off",
    )
    return json_reply(joined, 201, {"Cache-Control": "no-store"})


def _refused(what: str) -> ProblemError:
    return forbidden(f"this join token {what}; an administrator makes one with `tgpu nodes join-token`")


async def ca_pem(call: Call) -> Response:
    if call.services.ca_pem is None:
        raise not_found(
            "this server has no authority of its own: its certificate, if any, comes from elsewhere"
        )
    return Response(call.services.ca_pem, media_type="application/x-pem-file")


def endpoints() -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST", "/agents/join", Joining().join, None, "nodes",
            "Join as a node",
            "What `tgpu agent --join` asks. The token says who may; the node gets a key of its own, by which "
            "it is known from then on. A node that is connected keeps its name.",
            {
                201: Answer(
                    "Joined.",
                    Joined,
                    {
                        "cluster_id": "c0ffee",
                        "node_id": "n1",
                        "key": "tgpunode_…",
                        "ca_pem": None,
                        "servers": ["https://gpu1:7480"],
                        "pool": None,
                        "approved": True,
                    },
                )
            },
            errors=(409, 413, 422, 429),
            body=Body((JoinAsked,), {"a node": {"token": "tgpujoin_…", "node_id": "n1"}}),
        ),
        Endpoint(
            "GET", "/ca.pem", ca_pem, None, "service",
            "Show the cluster's authority",
            "The certificate by which clients and nodes know the servers, if the cluster signs theirs.",
            {200: Answer("The certificate.", example="-----BEGIN CERTIFICATE-----…",
                         media_type="application/x-pem-file")},
            errors=(404,),
        ),
    )  # fmt: skip
