"""The tenant in a path, as far as the caller may know of it."""

from tgpu.api.access import shown_tenants
from tgpu.api.endpoint import Call
from tgpu.api.problems import ProblemError, not_found
from tgpu.domain.tenant import Tenant


async def tenant_or_404(call: Call) -> Tenant:
    tenant_id, shown = call.tenant_id(), await shown_tenants(call)
    tenant = await call.services.store.tenant(tenant_id)
    if tenant is None or (shown is not None and tenant_id not in shown):
        raise no_tenant(tenant_id)
    return tenant


def no_tenant(tenant_id: str) -> ProblemError:
    return not_found(f"there is no tenant {tenant_id[:100]!r}; `tgpu tenants` lists them")
