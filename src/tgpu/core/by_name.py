"""Models of GPU that some tenant limits, so that they are given only by name: who could ask for them?"""

from math import inf

from tgpu.core.picture import Picture
from tgpu.domain.job import Request
from tgpu.domain.quota import GPU_MODEL
from tgpu.domain.tenant import lineage


def limited_by(picture: Picture, tenant_id: str, model: str) -> tuple[str, int] | None:
    """Which tenant from this one up has the smallest limit on the model, the nearest of equals, and how many
    thousandths of a GPU that is."""
    of_lineage = [(name, _limit(picture, name, model)) for name in reversed(lineage(tenant_id))]
    limited = [(name, most) for name, most in of_lineage if most is not None]
    return min(limited, key=lambda each: each[1], default=None)


def could_be_named(picture: Picture, request: Request, needs: int, tenant_id: str | None) -> list[str]:
    """Of the models that it is kept off, those of which its quota could admit so many thousandths. Where
    nobody says whose it is: those of which some quota could."""
    if request.gpu_type is not None or (tenant_id is not None and needs > _most_gpus(picture, tenant_id)):
        return []
    found = []
    for model in request.gpu_types_barred:
        if tenant_id is None:
            limits = [_limit(picture, name, model) for name in picture.tenants]
            most = max((limit for limit in limits if limit is not None), default=needs)
        else:
            limited = limited_by(picture, tenant_id, model)
            most = needs if limited is None else limited[1]
        if needs <= most:
            found.append(model)
    return found


def _most_gpus(picture: Picture, tenant_id: str) -> float:
    """Of whatever model, in thousandths."""
    tenants = [tenant for name in lineage(tenant_id) if (tenant := picture.tenants.get(name)) is not None]
    limits = [tenant.limits.gpu_milli for tenant in tenants if tenant.limits.gpu_milli is not None]
    return min(limits, default=inf)


def _limit(picture: Picture, tenant_id: str, model: str) -> int | None:
    tenant = picture.tenants.get(tenant_id)
    return None if tenant is None else dict(tenant.limits.named).get(f"{GPU_MODEL}{model}")
