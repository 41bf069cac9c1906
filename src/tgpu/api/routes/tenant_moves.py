"""Tenants that get another name or another parent, and tenants that go."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta, structs
from starlette.responses import Response

from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.etag import etag, wanted_version
from tgpu.api.needs import MANAGE_BELOW
from tgpu.api.permission import check_above
from tgpu.api.problems import name_kept
from tgpu.api.reply import json_reply, no_content
from tgpu.api.routes.params import IF_MATCH, TENANT_EXAMPLE, TENANT_ID
from tgpu.api.tenant_form import checked_id
from tgpu.api.tenant_lookup import no_tenant, tenant_or_404
from tgpu.api.tenant_view import TenantOut, tenants_out
from tgpu.domain.tenant import TENANT_ID as TENANT_PATTERN
from tgpu.domain.tenant import is_within
from tgpu.domain.tenant_rules import TenantRule
from tgpu.store.access_port import NameKeptError


class TenantMoved(TenantOut, kw_only=True):
    """A tenant as it is now, and what else has to follow its new name."""

    notes: list[str]


class TenantRemoved(msgspec.Struct, kw_only=True):
    """What still speaks of a tenant that is no more."""

    tenant_id: str
    notes: list[str]


class Move(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Where a tenant goes, with everybody below it."""

    to: Annotated[
        str,
        Meta(
            description="Its whole new name; the part before the last slash must exist.",
            extra_json_schema={"pattern": f"^{TENANT_PATTERN.pattern}$"},
        ),
    ]


_move = msgspec.json.Decoder(Move)


async def move_tenant(call: Call) -> Response:
    asked, services = decode(_move, await read_body(call, MIB)), call.services
    to_id = checked_id("to", asked.to)
    check_above(call, to_id)
    tenant = await tenant_or_404(call)
    version = wanted_version(call, tenant.version)
    try:
        moved = await services.store.move_tenant(
            tenant.tenant_id, to_id, call.actor, services.now_ms(), version
        )
    except NameKeptError as error:
        raise name_kept(
            error, "the one that is moved", "choose another name, since only a new tenant takes them over"
        ) from None
    await call.identity.changed()
    headers = {**etag(moved), "Location": f"/tenants/{moved.tenant_id}"}
    (out,) = await tenants_out(call, [moved])
    notes = _notes(call, tenant.tenant_id, to_id)
    return json_reply(TenantMoved(**structs.asdict(out), notes=notes), 200, headers)


async def remove_tenant(call: Call) -> Response:
    tenant, services = await tenant_or_404(call), call.services
    version = wanted_version(call, tenant.version)
    if not await services.store.remove_tenant(tenant.tenant_id, call.actor, services.now_ms(), version):
        raise no_tenant(tenant.tenant_id)
    await call.identity.changed()
    if notes := _notes(call, tenant.tenant_id):
        return json_reply(TenantRemoved(tenant_id=tenant.tenant_id, notes=notes))
    return no_content()


def _notes(call: Call, gone_id: str, to_id: str | None = None) -> list[str]:
    """Rules are settings, which no change of tenants changes."""
    return [
        f"the rule {rule} of the setting tenant_rules points to {gone_id}, which is no more: "
        f"{_advice(rule, gone_id, to_id)}"
        for rule in call.book.rules_into(gone_id)
    ]


def _advice(rule: TenantRule, gone_id: str, to_id: str | None) -> str:
    if to_id is None:
        return "let it point to another tenant"
    if is_within(rule.tenant_id, gone_id):
        return f"change it to {replace(rule, tenant_id=to_id + rule.tenant_id.removeprefix(gone_id))}"
    return f"write one before it for whom it meant, such as user:NAME={to_id}"


ENDPOINTS = (
    Endpoint(
        "POST", "/tenants/{tenant_id}/move", move_tenant, MANAGE_BELOW, "tenants",
        "Move a tenant",
        "Gives it and everybody below it another name, and with that perhaps another parent. Jobs, members "
        "and tokens go with it; what lives is charged to the new parents, whether or not they have room. For "
        "operators above both names.",
        {
            200: Answer(
                "The tenant as it is now; `notes` name the rules for homes that still have its old name.",
                TenantMoved,
                {**TENANT_EXAMPLE, "notes": []},
                headers={"ETag": '"3"', "Location": "/tenants/lab/vision"},
            )
        },
        errors=(404, 409, 412, 413, 422), params=(TENANT_ID, IF_MATCH),
        body=Body((Move,), {"below another": {"to": "lab/vision"}}),
    ),
    Endpoint(
        "DELETE", "/tenants/{tenant_id}", remove_tenant, MANAGE_BELOW, "tenants",
        "Remove a tenant",
        "Only one without live jobs and without tenants below it. Its ended jobs stay, under its name; its "
        "members go, and tokens that are good only there are revoked. For operators of a tenant above it.",
        {
            204: Answer("Removed."),
            200: Answer(
                "Removed; `notes` name the rules for homes that still point there.",
                TenantRemoved,
                {
                    "tenant_id": "lab",
                    "notes": ["the rule *=lab of the setting tenant_rules points to lab, which is no …"],
                },
            ),
        },
        errors=(404, 409, 412), params=(TENANT_ID, IF_MATCH),
    ),
)  # fmt: skip
