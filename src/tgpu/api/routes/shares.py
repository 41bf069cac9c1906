"""GET /shares: the fair share of every tenant against what it holds, and what the caller may change."""

from collections.abc import Collection, Mapping

import msgspec
from starlette.responses import Response

from tgpu.api.access import sees_all, shown_tenants
from tgpu.api.edge import decimal
from tgpu.api.endpoint import Answer, Call, Endpoint
from tgpu.api.needs import LOOK
from tgpu.api.permission import may_add_tenant, may_manage
from tgpu.api.reply import json_reply
from tgpu.domain.quota import Amounts
from tgpu.domain.tenant import Tenant, lineage
from tgpu.domain.views import TenantShare


class AmountsOut(msgspec.Struct, kw_only=True):
    cpu: int | float
    mem_mb: int
    gpu: int | float


class MayOut(msgspec.Struct, kw_only=True):
    """What the API would allow the caller to do with a tenant."""

    edit: bool
    """Change its weight, policy and quota, and its members."""
    add: bool
    """Create tenants below it."""
    highest_role: str | None
    """The highest role that the caller may give to its members; null: none."""


class ShareOut(msgspec.Struct, kw_only=True):
    """A tenant with all tenants below it."""

    tenant_id: str
    parent_id: str | None
    weight: int
    fair_share: float | None
    """The part of the cluster that is due to it by weights, beside siblings with pending or running jobs;
    null if the caller may not know of all of them."""
    dominant_share: float
    """The largest part that it holds of any resource."""
    dominant_resource: str
    """Which resource that is: `cpu`, `memory`, `gpu` or `other`; empty if it holds nothing."""
    held: AmountsOut
    """By running jobs."""
    running_jobs: int
    pending_jobs: int
    active: bool
    """Whether it has pending or running jobs."""
    may: MayOut


class ShareList(msgspec.Struct, kw_only=True):
    """The tenants that the caller may see; `total`: what they share."""

    total: AmountsOut
    tenants: list[ShareOut]
    complete: bool
    """False: there are tenants that the caller may not see."""
    may_add: bool
    """Create tenants without a parent."""


async def list_shares(call: Call) -> Response:
    shown = await shown_tenants(call)
    tenants = {tenant.tenant_id: tenant for tenant in await call.services.store.tenants()}
    shares = await call.services.live.cluster_shares()
    held = {share.tenant_id: share for share in shares.tenants}
    visible = [tenant for name, tenant in sorted(tenants.items()) if shown is None or name in shown]
    fair = fair_shares(tenants) if sees_all(call.caller, call.services.settings) else {}
    return json_reply(
        ShareList(
            total=_amounts_out(shares.total),
            tenants=[_share_out(call, tenant, held.get(tenant.tenant_id), fair) for tenant in visible],
            complete=len(visible) == len(tenants),
            may_add=may_add_tenant(call.caller, None),
        )
    )


def fair_shares(tenants: Mapping[str, Tenant]) -> dict[str, float]:
    """The product of each tenant's weight beside its active siblings, from the root down. A tenant that is
    not active counts itself: it is what it would get with its first job."""
    active = {name for name, tenant in tenants.items() if _is_active(tenant)}
    weights: dict[str | None, int] = {}
    for name in active:
        parent_id = tenants[name].parent_id
        weights[parent_id] = weights.get(parent_id, 0) + tenants[name].weight
    return {name: _fair_share(name, tenants, weights, active) for name in tenants}


def _fair_share(
    name: str, tenants: Mapping[str, Tenant], weights: Mapping[str | None, int], active: Collection[str]
) -> float:
    share = 1.0
    for above in lineage(name):
        tenant = tenants.get(above)
        if tenant is None:  # it was removed a moment ago
            return 0.0
        total = weights.get(tenant.parent_id, 0) + (0 if above in active else tenant.weight)
        share *= tenant.weight / total
    return share


def _is_active(tenant: Tenant) -> bool:
    return bool(tenant.job_use.running or tenant.job_use.waiting)


def _share_out(call: Call, tenant: Tenant, held: TenantShare | None, fair: Mapping[str, float]) -> ShareOut:
    name, caller = tenant.tenant_id, call.caller
    fair_share, above = fair.get(name), caller.rights.role_above(name)
    may_edit = may_manage(caller, name)
    return ShareOut(
        tenant_id=name,
        parent_id=tenant.parent_id,
        weight=tenant.weight,
        fair_share=None if fair_share is None else round(fair_share, 6),
        dominant_share=0.0 if held is None else held.dominant_share,
        dominant_resource="" if held is None else held.dominant_resource,
        held=_amounts_out(Amounts() if held is None else held.held),
        running_jobs=tenant.job_use.running,
        pending_jobs=tenant.job_use.waiting,
        active=_is_active(tenant),
        may=MayOut(
            edit=may_edit,
            add=may_add_tenant(caller, name),
            highest_role=above.word if may_edit and above is not None else None,
        ),
    )


def _amounts_out(amounts: Amounts) -> AmountsOut:
    return AmountsOut(
        cpu=decimal(amounts.cpu_milli), mem_mb=amounts.memory_mib, gpu=decimal(amounts.gpu_milli)
    )


_EXAMPLE: dict[str, object] = {
    "total": {"cpu": 64, "mem_mb": 262144, "gpu": 8},
    "tenants": [
        {
            "tenant_id": "lab/vision",
            "parent_id": "lab",
            "weight": 2,
            "fair_share": 0.5,
            "dominant_share": 0.25,
            "dominant_resource": "gpu",
            "held": {"cpu": 8, "mem_mb": 16384, "gpu": 2},
            "running_jobs": 2,
            "pending_jobs": 0,
            "active": True,
            "may": {"edit": True, "add": True, "highest_role": "operator"},
        }
    ],
    "complete": True,
    "may_add": False,
}
ENDPOINTS = (
    Endpoint(
        "GET", "/shares", list_shares, LOOK, "tenants",
        "List fair shares",
        "The part of the cluster that is due to each tenant by the weights, what it holds now, and what the "
        "caller may change.",
        {200: Answer("The shares.", ShareList, _EXAMPLE)},
    ),
)  # fmt: skip
