"""The tree of tenants and the terms of their jobs: those who may see them look, operators above change."""

import msgspec
from starlette.responses import Response

from tgpu.api.access import shown_tenants
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.etag import etag, wanted_version
from tgpu.api.needs import LOOK, MANAGE_BELOW, MANAGE_SOME
from tgpu.api.permission import check_above
from tgpu.api.problems import forbidden, name_kept
from tgpu.api.quota_form import limits_after
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import FORCE, IF_MATCH, TAKE_OVER, TENANT_EXAMPLE, TENANT_ID
from tgpu.api.routes.quotas import check_quota
from tgpu.api.tenant_form import (
    TenantAsked,
    TenantPatch,
    checked_id,
    tenant_after,
)
from tgpu.api.tenant_lookup import no_tenant, tenant_or_404
from tgpu.api.tenant_view import TenantOut, tenants_out
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import NameKeptError
from tgpu.store.port import UnknownTenantError

_asked = msgspec.json.Decoder(TenantAsked)
_patch = msgspec.json.Decoder(TenantPatch)
_NOTHING = TenantPatch()


class TenantList(msgspec.Struct, kw_only=True):
    """Every tenant that the caller may see; `complete`: there are no others."""

    tenants: list[TenantOut]
    complete: bool


async def list_tenants(call: Call) -> Response:
    shown = await shown_tenants(call)
    tenants = await call.services.store.tenants()
    seen = [tenant for tenant in tenants if shown is None or tenant.tenant_id in shown]
    told = await tenants_out(call, seen)
    return json_reply(TenantList(tenants=told, complete=len(seen) == len(tenants)))


async def create_tenant(call: Call) -> Response:
    asked, services = decode(_asked, await read_body(call, MIB)), call.services
    tenant_id = checked_id("tenant_id", asked.tenant_id)
    check_above(call, tenant_id)
    pages = await call.book.pages()
    tenant = limits_after(asked.quota, tenant_after(asked, Tenant(tenant_id), pages))
    await check_quota(call, asked.quota)
    take_over = call.query.flag("take_over")
    if take_over and not call.caller.is_admin:
        raise forbidden(
            "take_over: only administrators take over the ended jobs of a tenant that was removed"
        )
    try:
        made = await services.store.create_tenant(tenant, call.actor, services.now_ms(), take_over=take_over)
    except NameKeptError as error:
        instead = "choose another name, or take them over, as an administrator (`?take_over=true`)"
        raise name_kept(error, "the new one", instead) from None
    await call.identity.changed()
    return await _answer(call, made, 201, {"Location": f"/tenants/{made.tenant_id}"})


async def show_tenant(call: Call) -> Response:
    return await _answer(call, await tenant_or_404(call))


async def change_tenant(call: Call) -> Response:
    patch, services = decode(_patch, await read_body(call, MIB)), call.services
    tenant, pages = await tenant_or_404(call), await call.book.pages()
    version = wanted_version(call, tenant.version)
    if patch != _NOTHING:
        try:
            tenant = await services.store.update_tenant(
                tenant.tenant_id,
                lambda old: tenant_after(patch, old, pages),
                call.actor,
                services.now_ms(),
                version,
            )
        except UnknownTenantError:
            raise no_tenant(tenant.tenant_id) from None
        await call.identity.changed()
    return await _answer(call, tenant)


async def _answer(
    call: Call, tenant: Tenant, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    (out,) = await tenants_out(call, [tenant])
    return json_reply(out, status, {**etag(tenant), **(headers or {})})


_TAG = {"ETag": '"3"'}
_CREATED = {**_TAG, "Location": "/tenants/lab/vision"}
ENDPOINTS = (
    Endpoint(
        "GET", "/tenants", list_tenants, LOOK, "tenants",
        "List tenants", "Every tenant that the caller may see, with its weight, terms and quota.",
        {200: Answer("The tenants.", TenantList, {"tenants": [TENANT_EXAMPLE], "complete": True})},
    ),
    Endpoint(
        "POST", "/tenants", create_tenant, MANAGE_SOME, "tenants",
        "Create a tenant",
        "Adds a tenant below its parent, with a weight, terms and limits. For operators of the parent; one "
        "without a parent is made by operators of the whole cluster.",
        {201: Answer("Created.", TenantOut, TENANT_EXAMPLE, headers=_CREATED)},
        errors=(409, 413, 422),
        params=(FORCE, TAKE_OVER),
        body=Body((TenantAsked,), {"a team": {"tenant_id": "lab", "weight": 2, "gpu_limit": 4}}),
    ),
    Endpoint(
        "GET", "/tenants/{tenant_id}", show_tenant, LOOK, "tenants",
        "Show a tenant", "One tenant with its weight, terms and quota.",
        {200: Answer("The tenant.", TenantOut, TENANT_EXAMPLE, headers=_TAG)},
        errors=(404,), params=(TENANT_ID,),
    ),
    Endpoint(
        "PATCH", "/tenants/{tenant_id}", change_tenant, MANAGE_BELOW, "tenants",
        "Change a tenant's weight and terms",
        "What is left out stays, null takes a term away, so that its tier or its parent has the say. With "
        "If-Match, only if nobody changed it first. For operators of a tenant above it.",
        {200: Answer("The tenant as it is now.", TenantOut, TENANT_EXAMPLE, headers=_TAG)},
        errors=(404, 412, 413, 422), params=(TENANT_ID, IF_MATCH),
        body=Body(
            (TenantPatch,),
            {
                "twice the weight": {"weight": 2},
                "short jobs": {"max_time_limit_s": 86400, "default_time_limit_s": 3600},
            },
        ),
    ),
)  # fmt: skip
