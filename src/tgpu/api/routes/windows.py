"""Windows: nodes kept for maintenance, or for somebody, from one moment to another."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.audit_note import note
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.needs import ADMINISTER, LOOK
from tgpu.api.problems import ProblemError, not_found, unprocessable
from tgpu.api.reply import json_reply, no_content
from tgpu.api.routes.node_orders import MAX_NODES, rules_of
from tgpu.api.window_nodes import overlapping
from tgpu.domain.label_rules import written
from tgpu.store.cluster_port import WindowKind, WindowRow

_MOST_AHEAD_MS = 366 * 24 * 3600 * 1000
_MAX_NAME = 200
_MAX_DIGITS = 15
_Moment = Annotated[
    str, Meta(description="RFC 3339, such as 2030-01-31T12:00:00Z.", examples=["2030-01-31T12:00:00Z"])
]


class WindowAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Nodes to be kept: for a tenant, or, if none is said, for maintenance."""

    until: _Moment
    from_: Annotated[str | None, Meta(description="By default now.")] = msgspec.field(
        default=None, name="from"
    )
    nodes: Annotated[
        list[str], Meta(description="Nodes by name.", extra_json_schema={"maxItems": MAX_NODES})
    ] = []
    where: Annotated[
        list[str],
        Meta(
            description="Also all nodes, present and future, whose labels satisfy every one of these rules."
        ),
    ] = []
    tenant_id: Annotated[
        str | None, Meta(description="Who may use them meanwhile, with everybody below; null: nobody.")
    ] = None
    name: Annotated[str, Meta(description="What it is for.", extra_json_schema={"maxLength": _MAX_NAME})] = ""


class WindowOut(msgspec.Struct, kw_only=True):
    """A window."""

    window_id: int
    kind: WindowKind
    name: str
    nodes: Sequence[str]
    where: list[str]
    tenant_id: str | None
    from_: str = msgspec.field(name="from")
    until: str
    created_by: str
    created_at: str
    state: str
    """`coming`, `open`, `over` or `cancelled`"""


class NewWindow(WindowOut, kw_only=True):
    """A window that was just made."""

    overlaps: list[int]
    """Other windows that keep some of its nodes at the same time."""


class WindowList(msgspec.Struct, kw_only=True):
    """Windows, the oldest first."""

    windows: list[WindowOut]


_asked = msgspec.json.Decoder(WindowAsked)


def window_out(row: WindowRow, now_ms: int) -> WindowOut:
    return WindowOut(
        window_id=row.window_id,
        kind=row.kind,
        name=row.name,
        nodes=row.node_ids,
        where=[written(rule) for rule in row.rules],
        tenant_id=row.tenant_id,
        from_=rfc3339(row.from_ms),
        until=rfc3339(row.until_ms),
        created_by=row.created_by,
        created_at=rfc3339(row.created_ms),
        state=_state(row, now_ms),
    )


def _state(row: WindowRow, now_ms: int) -> str:
    if row.cancelled:
        return "cancelled"
    if row.until_ms <= now_ms:
        return "over"
    return "open" if row.from_ms <= now_ms else "coming"


async def create(call: Call) -> Response:
    asked, services = decode(_asked, await read_body(call, MIB)), call.services
    now_ms = services.now_ms()
    from_ms = now_ms if asked.from_ is None else _moment("from", asked.from_)
    until_ms = _moment("until", asked.until)
    _check_bounds(from_ms, until_ms, now_ms)
    if len(asked.name) > _MAX_NAME or not (asked.name.isprintable() or not asked.name):
        raise unprocessable("name", f"name must be at most {_MAX_NAME} printable characters")
    names = await _known_nodes(call, asked)
    if asked.tenant_id is not None and await services.store.tenant(asked.tenant_id) is None:
        raise unprocessable(
            "tenant_id", f"tenant_id: there is no tenant {asked.tenant_id[:100]!r}; `tgpu tenants` lists them"
        )
    made = await services.store.create_window(
        WindowRow(
            window_id=0,
            kind=WindowKind.MAINTENANCE if asked.tenant_id is None else WindowKind.RESERVATION,
            name=asked.name,
            node_ids=names,
            rules=rules_of(asked.where),
            from_ms=from_ms,
            until_ms=until_ms,
            created_by=call.caller.user,
            created_ms=now_ms,
            tenant_id=asked.tenant_id,
        )
    )
    out = window_out(made, now_ms)
    await note(call, "window.create", str(made.window_id), after=out)
    others = overlapping(made, await services.store.windows(), await services.store.nodes())
    return json_reply(NewWindow(**msgspec.structs.asdict(out), overlaps=others), 201)


def _check_bounds(from_ms: int, until_ms: int, now_ms: int) -> None:
    if until_ms <= from_ms:
        raise unprocessable("until", "until must be later than from")
    if until_ms <= now_ms:
        raise unprocessable("until", "until is in the past: a window must still be open some time")
    if until_ms > now_ms + _MOST_AHEAD_MS:
        raise unprocessable("until", "until must be at most a year (366 days) ahead")


def _moment(field: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise unprocessable(
            field, f"{field} must be a time with a zone, such as 2030-01-31T12:00:00Z; got {text[:80]!r}"
        )
    return round(moment.timestamp() * 1000)


async def _known_nodes(call: Call, asked: WindowAsked) -> tuple[str, ...]:
    if not asked.nodes and not asked.where:
        raise unprocessable("nodes", "give nodes by name, or rules in where that their labels satisfy")
    if len(asked.nodes) > MAX_NODES:
        raise unprocessable("nodes", f"nodes may have at most {MAX_NODES} names; got {len(asked.nodes)}")
    known = {node.node_id for node in await call.services.store.nodes()} if asked.nodes else set()
    unknown = [name[:100] for name in asked.nodes if name not in known]
    if unknown:
        raise unprocessable("nodes", f"there is no node {', '.join(unknown[:5])}; `tgpu nodes` lists them")
    return tuple(dict.fromkeys(asked.nodes))


async def list_all(call: Call) -> Response:
    now_ms = call.services.now_ms()
    return json_reply(
        WindowList(windows=[window_out(row, now_ms) for row in await call.services.store.windows()])
    )


async def cancel(call: Call) -> Response:
    written_id, services = call.path("window_id"), call.services
    is_number = written_id.isascii() and written_id.isdigit() and len(written_id) <= _MAX_DIGITS
    rows = {row.window_id: row for row in await services.store.windows()} if is_number else {}
    row = rows.get(int(written_id)) if is_number else None
    if row is None:
        raise not_found(f"there is no window {written_id[:100]!r}; `tgpu windows` lists them")
    state = _state(row, services.now_ms())
    if state == "over" or not await services.store.cancel_window(row.window_id):
        raise ProblemError(409, "window-conflict", f"window {row.window_id} is {state} already")
    await note(call, "window.cancel", str(row.window_id), before=window_out(row, services.now_ms()))
    return no_content()


_EXAMPLE: dict[str, object] = {
    "window_id": 3,
    "kind": "reservation",
    "name": "course on Friday",
    "nodes": ["ws1"],
    "where": ["rack=r7"],
    "tenant_id": "org/teaching",
    "from": "2030-01-31T12:00:00.000Z",
    "until": "2030-01-31T18:00:00.000Z",
    "created_by": "root",
    "created_at": "2030-01-30T12:00:00.000Z",
    "state": "coming",
}
_ID = Param("window_id", "Its number.", {"type": "integer", "minimum": 1}, 3, where="path", required=True)

ENDPOINTS = (
    Endpoint(
        "GET", "/windows", list_all, LOOK, "nodes",
        "List windows", "Every window, past and cancelled ones too.",
        {200: Answer("The windows.", WindowList, {"windows": [_EXAMPLE]})},
    ),
    Endpoint(
        "POST", "/windows", create, ADMINISTER, "nodes",
        "Make a window",
        "From `from` to `until` nobody may use the nodes but the tenant that is named; without one, nobody "
        "at all. Tasks that might still run when it opens are not started there; what runs there already is "
        "left alone.",
        {201: Answer("Made.", NewWindow, {**_EXAMPLE, "overlaps": []})},
        errors=(413, 422),
        body=Body(
            (WindowAsked,),
            {
                "maintenance": {"nodes": ["ws1"], "until": "2030-01-31T18:00:00Z", "name": "new fans"},
                "for a course": {
                    "where": ["rack=r7"], "tenant_id": "org/teaching",
                    "from": "2030-01-31T12:00:00Z", "until": "2030-01-31T18:00:00Z",
                },
            },
        ),
    ),
    Endpoint(
        "DELETE", "/windows/{window_id}", cancel, ADMINISTER, "nodes",
        "Cancel a window", "The nodes are for everybody again.",
        {204: Answer("Cancelled.")},
        errors=(404, 409),
        params=(_ID,),
    ),
)  # fmt: skip
