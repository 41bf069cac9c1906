"""What administrators order of nodes: to drain them, no longer to, and to forget them."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.audit_note import note
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.needs import ADMINISTER
from tgpu.api.problems import ProblemError, not_found, unprocessable
from tgpu.api.reply import json_reply
from tgpu.domain.job import LabelRule
from tgpu.domain.label_rules import label_rules
from tgpu.domain.node_orders import NodeOrder, NodeVerb
from tgpu.domain.quantities import BadQuantityError

MAX_NODES = 10_000
_MAX_REASON = 500
_Names = Annotated[list[str], Meta(description="Nodes by name.", extra_json_schema={"maxItems": MAX_NODES})]
_Where = Annotated[
    list[str], Meta(description="Instead of names: all nodes whose labels satisfy every one of these rules.")
]


class Reason(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Why, for whoever looks at the nodes."""

    reason: Annotated[str, Meta(extra_json_schema={"maxLength": _MAX_REASON})] = ""


class NodesToDrain(Reason, forbid_unknown_fields=True, kw_only=True):
    """The nodes to drain."""

    nodes: _Names = []
    where: _Where = []


class NodesChosen(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The nodes that it is about."""

    nodes: _Names = []
    where: _Where = []


class OrderedOut(msgspec.Struct, kw_only=True):
    """The nodes on which it was carried out."""

    nodes: Sequence[str]


_reason = msgspec.json.Decoder(Reason)
_to_drain = msgspec.json.Decoder(NodesToDrain)
_chosen = msgspec.json.Decoder(NodesChosen)


async def drain_one(call: Call) -> Response:
    raw = await read_body(call, MIB)
    asked = decode(_reason, raw) if raw else Reason()
    return await _order(call, NodeVerb.DRAIN, [call.path("node_id")], reason=asked.reason)


async def undrain_one(call: Call) -> Response:
    return await _order(call, NodeVerb.UNDRAIN, [call.path("node_id")])


async def remove_one(call: Call) -> Response:
    return await _order(call, NodeVerb.REMOVE, [call.path("node_id")])


async def drain_many(call: Call) -> Response:
    asked = decode(_to_drain, await read_body(call, MIB))
    return await _order(call, NodeVerb.DRAIN, asked.nodes, _rules(asked.nodes, asked.where), asked.reason)


async def undrain_many(call: Call) -> Response:
    asked = decode(_chosen, await read_body(call, MIB))
    return await _order(call, NodeVerb.UNDRAIN, asked.nodes, _rules(asked.nodes, asked.where))


async def remove_many(call: Call) -> Response:
    asked = decode(_chosen, await read_body(call, MIB))
    return await _order(call, NodeVerb.REMOVE, asked.nodes, _rules(asked.nodes, asked.where))


def _rules(names: list[str], where: list[str]) -> tuple[LabelRule, ...]:
    if bool(names) == bool(where):
        raise unprocessable(
            "nodes", "give nodes by name, or rules in where that their labels satisfy: one of the two"
        )
    if len(names) > MAX_NODES:
        raise unprocessable("nodes", f"nodes may have at most {MAX_NODES} names; got {len(names)}")
    return rules_of(where)


def rules_of(where: Sequence[str]) -> tuple[LabelRule, ...]:
    try:
        return label_rules("where", where)
    except BadQuantityError as error:
        raise unprocessable("where", str(error)) from None


async def _order(
    call: Call, verb: NodeVerb, names: Sequence[str], rules: tuple[LabelRule, ...] = (), reason: str = ""
) -> Response:
    if len(reason) > _MAX_REASON or not (reason.isprintable() or not reason):
        raise unprocessable("reason", f"reason must be at most {_MAX_REASON} printable characters")
    order = NodeOrder(verb, call.caller.user, tuple(names), rules, reason)
    outcome = await call.services.live.order_nodes(order)
    if outcome.unknown:
        raise not_found(outcome.refusal)
    if outcome.refusal:
        raise ProblemError(409, "node-conflict", outcome.refusal)
    for node_id in outcome.node_ids:
        await note(call, f"node.{verb}", node_id, after={"reason": reason} if reason else None)
    return json_reply(OrderedOut(nodes=outcome.node_ids))


NODE_ID = Param("node_id", "The node's name.", {"type": "string"}, "ws1", where="path", required=True)
_EXAMPLE = {"nodes": ["ws1"]}
_BY_NAME = {"nodes": ["ws1", "ws2"]}
_DRAINS = (
    "Nothing new starts there from now on, and what runs there ends in peace. The order outlives restarts, "
    "also the node's own, until it is taken back. All of them or none."
)
_UNDRAINS = "They take tasks again. All of them or none."
_REMOVES = (
    "Forgets nodes that are not connected and hold nothing, with their keys: to come back, they must join "
    "anew. All of them or none."
)


def _one(verb: str, method: str, path: str, handler: Any, summary: str, text: str) -> Endpoint:  # noqa: ANN401, PLR0917  a handler
    why = Body((Reason,), {"for a repair": {"reason": "GPU 3 is ill"}}, required=False)
    body = why if verb == "drain" else None
    errors = (404, 409, 413, 422) if body else (404, 409)
    return Endpoint(
        method, path, handler, ADMINISTER, "nodes", summary, text,
        {200: Answer("Done.", OrderedOut, _EXAMPLE)}, errors=errors, params=(NODE_ID,), body=body,
    )  # fmt: skip


def _many(path: str, handler: Any, summary: str, text: str, body: Body) -> Endpoint:  # noqa: ANN401  a handler
    return Endpoint(
        "POST", path, handler, ADMINISTER, "nodes", summary, text,
        {200: Answer("Done.", OrderedOut, _BY_NAME)}, errors=(404, 409, 413, 422), body=body,
    )  # fmt: skip


ENDPOINTS = (
    _one("drain", "POST", "/nodes/{node_id}/drain", drain_one, "Drain a node", _DRAINS),
    _one("undrain", "POST", "/nodes/{node_id}/undrain", undrain_one, "Take a drain back", _UNDRAINS),
    _one("remove", "DELETE", "/nodes/{node_id}", remove_one, "Remove a node", _REMOVES),
    _many(
        "/nodes/drain", drain_many, "Drain nodes", _DRAINS,
        Body(
            (NodesToDrain,),
            {
                "by name": {**_BY_NAME, "reason": "new kernel"},
                "by label": {"where": ["rack=r7"], "reason": "cooling fails"},
            },
        ),
    ),
    _many("/nodes/undrain", undrain_many, "Take drains back", _UNDRAINS,
          Body((NodesChosen,), {"by name": _BY_NAME, "by label": {"where": ["rack=r7"]}})),
    _many("/nodes/remove", remove_many, "Remove nodes", _REMOVES,
          Body((NodesChosen,), {"by name": _BY_NAME})),
)  # fmt: skip
