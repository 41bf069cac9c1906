"""Approval of nodes that have joined while the setting `join_approval` is on."""

from starlette.responses import Response

from tgpu.api.audit_note import note
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import ADMINISTER
from tgpu.api.problems import not_found
from tgpu.api.reply import json_reply
from tgpu.api.routes.node_orders import NODE_ID, OrderedOut


async def approve(call: Call) -> Response:
    """A node that was approved before stays approved: a client that lost the answer asks again."""
    node_id, store = call.path("node_id"), call.services.store
    if await store.approve_nodes([node_id]):
        await note(call, "node.approve", node_id)
    elif await store.admissions([node_id]) == [None]:
        raise not_found(f"no node {node_id[:100]!r} has joined by a token; `tgpu nodes` lists them")
    return json_reply(OrderedOut(nodes=(node_id,)))


ENDPOINTS = (
    Endpoint(
        "POST", "/nodes/{node_id}/approve", approve, ADMINISTER, "nodes",
        "Approve a node",
        "Lets a node in that has joined while the setting `join_approval` is on. Until then it gets no work "
        "and no secrets. To refuse it, remove it.",
        {200: Answer("Approved.", OrderedOut, {"nodes": ["ws1"]})},
        errors=(404,),
        params=(NODE_ID,),
    ),
)  # fmt: skip
