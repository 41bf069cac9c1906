"""What tenants may have at most, and what they use of it."""

import msgspec
from starlette.responses import Response

from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.etag import etag, wanted_version
from tgpu.api.needs import LOOK, MANAGE_BELOW
from tgpu.api.quota_form import QuotaOut, QuotaPatch, check_there_is, limits_after, new_names, quota_out
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import FORCE, IF_MATCH, QUOTA_EXAMPLE, TENANT_ID
from tgpu.api.tenant_lookup import no_tenant, tenant_or_404
from tgpu.domain.node_terms import generic_pairs
from tgpu.domain.tenant import Tenant
from tgpu.store.port import UnknownTenantError

_patch = msgspec.json.Decoder(QuotaPatch)


async def check_quota(call: Call, patch: QuotaPatch) -> None:
    """Raises ProblemError if it limits what nobody has, unless the caller insists."""
    if call.query.flag("force") or not any(new_names(patch)):
        return
    licences = dict(generic_pairs("cluster_generic", call.services.settings.cluster_generic))
    check_there_is(patch, await call.services.store.nodes(), licences.keys())


async def _shown(call: Call, tenant: Tenant) -> QuotaOut:
    return quota_out(tenant, await call.services.store.reserved_gpu_ms())


async def show_quota(call: Call) -> Response:
    tenant = await tenant_or_404(call)
    return json_reply(await _shown(call, tenant), headers=etag(tenant))


async def change_quota(call: Call) -> Response:
    patch, services = decode(_patch, await read_body(call, MIB)), call.services
    tenant = await tenant_or_404(call)
    version = wanted_version(call, tenant.version)
    await check_quota(call, patch)
    try:
        tenant = await services.store.update_tenant(
            tenant.tenant_id, lambda old: limits_after(patch, old), call.actor, services.now_ms(), version
        )
    except UnknownTenantError:
        raise no_tenant(tenant.tenant_id) from None
    await call.identity.changed()
    return json_reply(await _shown(call, tenant), headers=etag(tenant))


_TAG = {"ETag": '"3"'}
ENDPOINTS = (
    Endpoint(
        "GET", "/tenants/{tenant_id}/quota", show_quota, LOOK, "tenants",
        "Show a tenant's quota", "Its limits and what is used of them.",
        {200: Answer("The quota.", QuotaOut, QUOTA_EXAMPLE, headers=_TAG)},
        errors=(404,), params=(TENANT_ID,),
    ),
    Endpoint(
        "PATCH", "/tenants/{tenant_id}/quota", change_quota, MANAGE_BELOW, "tenants",
        "Change a tenant's quota",
        "What is left out stays, null takes a limit away. A lowered limit stops admissions and kills "
        "nothing. For operators of a tenant above it.",
        {200: Answer("The quota as it is now.", QuotaOut, QUOTA_EXAMPLE, headers=_TAG)},
        errors=(404, 412, 413, 422), params=(TENANT_ID, IF_MATCH, FORCE),
        body=Body(
            (QuotaPatch,),
            {
                "four GPUs": {"gpu_limit": 4},
                "two of a model": {"gpu_type_limits": {"a100": 2}},
                "per month": {"gpu_hours_limit": 500, "gpu_hours_period": "month"},
            },
        ),
    ),
)  # fmt: skip
