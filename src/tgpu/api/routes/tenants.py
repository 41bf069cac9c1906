"""The tree of tenants and their quotas; everybody may look, administrators change."""

from typing import Any

import msgspec
from litestar import Response
from msgspec import UNSET

from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.identity import Role
from tgpu.api.problems import ProblemError, bad_request, not_found
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import IF_MATCH, TENANT_ID
from tgpu.api.tenant_form import (
    QuotaOut,
    QuotaPatch,
    TenantAsked,
    TenantOut,
    TenantPatch,
    checked_id,
    checked_weight,
    limits_after,
    quota_out,
    tenant_out,
)
from tgpu.domain.tenant import Limits, Tenant
from tgpu.store.port import StaleVersionError

_TRIES = 20  # a busy tenant's version moves with every submission
_asked = msgspec.json.Decoder(TenantAsked)
_tenant_patch = msgspec.json.Decoder(TenantPatch)
_quota_patch = msgspec.json.Decoder(QuotaPatch)


class TenantList(msgspec.Struct, kw_only=True):
    """Every tenant."""

    tenants: list[TenantOut]


async def _tenant_or_404(call: Call) -> Tenant:
    tenant_id = call.tenant_id()
    tenant = await call.services.store.tenant(tenant_id)
    if tenant is None:
        raise not_found(f"there is no tenant {tenant_id[:100]!r}; GET /tenants lists them")
    return tenant


def _etag(tenant: Tenant) -> dict[str, str]:
    return {"ETag": f'"{tenant.version}"'}


def _wanted_version(call: Call, current: int) -> int | None:
    """What If-Match asks for; None if any version will do. Raises ProblemError if it is past already."""
    written = call.request.headers.get("if-match")
    if written is None or written.strip() == "*":
        return None
    tags = [tag.strip() for tag in written.split(",")]
    for tag in tags:
        if not (tag.startswith(('"', 'W/"')) and tag.endswith('"') and len(tag) > 1):
            raise bad_request('If-Match must be an ETag in quotes, such as "3", or *')
    if f'"{current}"' in tags:
        return current
    raise ProblemError(
        412,
        "stale-version",
        f"somebody changed it first: the version is {current} by now; read it again, then decide",
        extras={"current_version": current},
    )


async def list_tenants(call: Call) -> Response[Any]:
    tenants = await call.services.store.tenants()
    return json_reply(TenantList(tenants=[tenant_out(tenant) for tenant in tenants]))


async def create_tenant(call: Call) -> Response[Any]:
    asked = decode(_asked, await read_body(call, MIB))
    tenant = Tenant(checked_id(asked.tenant_id), checked_weight(asked.weight), limits_after(asked, Limits()))
    made = await call.services.store.create_tenant(tenant)
    return json_reply(tenant_out(made), 201, {**_etag(made), "Location": f"/tenants/{made.tenant_id}"})


async def show_tenant(call: Call) -> Response[Any]:
    tenant = await _tenant_or_404(call)
    return json_reply(tenant_out(tenant), headers=_etag(tenant))


async def change_tenant(call: Call) -> Response[Any]:
    patch = decode(_tenant_patch, await read_body(call, MIB))
    tenant = await _tenant_or_404(call)
    version = _wanted_version(call, tenant.version)
    if patch.weight is not UNSET:
        tenant = await call.services.store.update_tenant(
            tenant.tenant_id, weight=checked_weight(patch.weight), if_version=version
        )
    return json_reply(tenant_out(tenant), headers=_etag(tenant))


async def show_quota(call: Call) -> Response[Any]:
    tenant = await _tenant_or_404(call)
    return json_reply(quota_out(tenant), headers=_etag(tenant))


async def change_quota(call: Call) -> Response[Any]:
    """The limits are read, changed and written together: if somebody came between, once more."""
    patch = decode(_quota_patch, await read_body(call, MIB))
    for _ in range(_TRIES):
        tenant = await _tenant_or_404(call)
        wanted = _wanted_version(call, tenant.version)
        try:
            tenant = await call.services.store.update_tenant(
                tenant.tenant_id, limits=limits_after(patch, tenant.limits), if_version=tenant.version
            )
        except StaleVersionError:
            if wanted is not None:
                raise
        else:
            return json_reply(quota_out(tenant), headers=_etag(tenant))
    raise ProblemError(
        503, "busy", "this tenant changes too fast right now; try again", headers={"Retry-After": "1"}
    )


_QUOTA_EXAMPLE: dict[str, object] = {
    "quota_id": "lab/vision",
    "tenant_id": "lab/vision",
    "cpu_limit": 64,
    "mem_limit_mb": None,
    "disk_limit_mb": None,
    "gpu_limit": 4,
    "cpu_used": 2,
    "mem_used_mb": 16384,
    "disk_used_mb": 0,
    "gpu_used": 0.5,
    "version": 3,
}
_TENANT_EXAMPLE: dict[str, object] = {
    "tenant_id": "lab/vision",
    "parent_id": "lab",
    "weight": 1,
    "version": 3,
    "quota": _QUOTA_EXAMPLE,
}
_TAG = {"ETag": '"3"'}
_CREATED = {**_TAG, "Location": "/tenants/lab/vision"}
ENDPOINTS = (
    Endpoint(
        "GET", "/tenants", list_tenants, Role.VIEWER, "tenants",
        "List tenants", "Every tenant with its weight and quota.",
        {200: Answer("The tenants.", TenantList, {"tenants": [_TENANT_EXAMPLE]})},
    ),
    Endpoint(
        "POST", "/tenants", create_tenant, Role.ADMIN, "tenants",
        "Create a tenant", "Adds a tenant below its parent, with a weight and limits. For administrators.",
        {201: Answer("Created.", TenantOut, _TENANT_EXAMPLE, headers=_CREATED)},
        errors=(409, 413, 422),
        body=Body((TenantAsked,), {"a team": {"tenant_id": "lab", "weight": 2, "gpu_limit": 4}}),
    ),
    Endpoint(
        "GET", "/tenants/{tenant_id}", show_tenant, Role.VIEWER, "tenants",
        "Show a tenant", "One tenant with its weight and quota.",
        {200: Answer("The tenant.", TenantOut, _TENANT_EXAMPLE, headers=_TAG)},
        errors=(404,), params=(TENANT_ID,),
    ),
    Endpoint(
        "PATCH", "/tenants/{tenant_id}", change_tenant, Role.ADMIN, "tenants",
        "Change a tenant's weight", "With If-Match, only if nobody changed it first. For administrators.",
        {200: Answer("The tenant as it is now.", TenantOut, _TENANT_EXAMPLE, headers=_TAG)},
        errors=(404, 412, 413, 422), params=(TENANT_ID, IF_MATCH),
        body=Body((TenantPatch,), {"twice the weight": {"weight": 2}}),
    ),
    Endpoint(
        "GET", "/tenants/{tenant_id}/quota", show_quota, Role.VIEWER, "tenants",
        "Show a tenant's quota", "Its limits and what is used of them.",
        {200: Answer("The quota.", QuotaOut, _QUOTA_EXAMPLE, headers=_TAG)},
        errors=(404,), params=(TENANT_ID,),
    ),
    Endpoint(
        "PATCH", "/tenants/{tenant_id}/quota", change_quota, Role.ADMIN, "tenants",
        "Change a tenant's quota",
        "What is left out stays, null takes a limit away. A lowered limit stops admissions and kills "
        "nothing. For administrators.",
        {200: Answer("The quota as it is now.", QuotaOut, _QUOTA_EXAMPLE, headers=_TAG)},
        errors=(404, 412, 413, 422), params=(TENANT_ID, IF_MATCH),
        body=Body((QuotaPatch,), {"four GPUs": {"gpu_limit": 4}}),
    ),
)  # fmt: skip
