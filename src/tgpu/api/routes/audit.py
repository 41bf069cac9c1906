"""GET /audit: who changed what, when and from where."""

import json
from typing import Any

import msgspec
from starlette.responses import Response

from tgpu.api.edge import rfc3339
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.job_filter import span
from tgpu.api.needs import OVERSEE
from tgpu.api.reply import json_reply
from tgpu.domain.access import AuditEntry
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.store.access_port import AuditFilter

_DEFAULT_PAGE = 100
_MAX_PAGE = 1000


class AuditOut(msgspec.Struct, kw_only=True):
    """A change that was made; `before` and `after` are null where there was nothing."""

    audit_id: int
    at: str
    user_id: str
    via: str
    address: str
    token_id: int | None
    action: str
    target: str
    before: Any
    after: Any


class AuditPage(msgspec.Struct, kw_only=True):
    """Some changes, and where to go on; `next_cursor` is null on the last page."""

    entries: list[AuditOut]
    next_cursor: int | None


def _out(entry: AuditEntry) -> AuditOut:
    return AuditOut(
        audit_id=entry.audit_id,
        at=rfc3339(entry.at_ms),
        user_id=entry.actor.user,
        via=entry.actor.via,
        address=entry.actor.address,
        token_id=entry.actor.token_id,
        action=entry.action,
        target=entry.target,
        before=json.loads(entry.before) if entry.before else None,
        after=json.loads(entry.after) if entry.after else None,
    )


async def list_audit(call: Call) -> Response:
    query = call.query
    from_ms, until_ms = span(call, "since", "until")
    where = AuditFilter(
        user=query.one("user"),
        action=query.one("action"),
        target=query.one("target"),
        from_ms=from_ms,
        until_ms=until_ms,
    )
    limit = query.whole("limit", 1, _MAX_PAGE) or _DEFAULT_PAGE
    before_id = query.whole("cursor", 0, MAX_JOB_ID)
    found = await call.services.store.audit_entries(where, limit + 1, before_id)
    page, more = found[:limit], len(found) > limit
    return json_reply(
        AuditPage(entries=[_out(entry) for entry in page], next_cursor=page[-1].audit_id if more else None)
    )


_TEXT = {"type": "string"}
_EXAMPLE: dict[str, object] = {
    "audit_id": 7,
    "at": "2030-01-31T12:00:00.000Z",
    "user_id": "root",
    "via": "socket",
    "address": "pid 4711",
    "token_id": None,
    "action": "tenant.update",
    "target": "lab/vision",
    "before": {"weight": 1},
    "after": {"weight": 2},
}
ENDPOINTS = (
    Endpoint(
        "GET", "/audit", list_audit, OVERSEE, "service",
        "List changes",
        "Who changed what, when and from where; the newest first. Nothing in it is ever changed or removed. "
        "For operators of the whole cluster.",
        {200: Answer("The changes.", AuditPage, {"entries": [_EXAMPLE], "next_cursor": None})},
        params=(
            Param("user", "By this user.", _TEXT, "root"),
            Param("action", "Of this kind; or the part before the dot.", _TEXT, "tenant.update"),
            Param("target", "On this, or everything below it.", _TEXT, "lab"),
            Param("since", "Since; a time, or how long ago.", _TEXT, "7d"),
            Param("until", "Until; a time, or how long ago.", _TEXT, "2030-01-31T12:00:00Z"),
            Param("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE}, 100),
            Param("cursor", "The `next_cursor` of the page before.", {"type": "integer", "minimum": 0}, 7),
        ),
    ),
)  # fmt: skip
