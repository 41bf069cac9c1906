"""A refused submission in words and numbers: what was asked, is used and would fit, and whom to ask."""

from collections.abc import Callable

from tgpu.api.edge import QUOTA_NAMES, decimal
from tgpu.domain.quantities import size_in_words
from tgpu.domain.quota import BURST_DEN, BURST_NUM, GENERIC, GPU_MODEL
from tgpu.domain.tenant import Tenant
from tgpu.store.quota_port import QuotaExceededError

WAITING = "waiting"
_UNITS = {"cpu_milli": "CPUs", "memory_mib": "of memory", "disk_mib": "of disk", "gpu_milli": "GPUs"}
_SIZES = ("memory_mib", "disk_mib")


def quota_sentence(error: QuotaExceededError) -> tuple[str, dict[str, object]]:
    tenant, dimension, asked = error.tenant, error.dimension, error.asked
    limit, used = _limit_and_use(tenant, dimension)
    free = max(limit - used, 0)
    scale, said, unit = _ways_to_say(dimension)
    verb = "is" if dimension in _SIZES else "are"
    sentence = f"tenant {tenant.tenant_id} {_may(dimension, said(limit), unit)}"
    if asked > limit:
        sentence += f"; this asks for {said(asked)}, which is more than the whole limit: ask for less"
    else:
        room = f"Up to {said(free)} would fit now" if free else "Nothing fits now"
        sentence += (
            f" and {said(used)} {verb} taken; this asks for {said(asked)} more. {room}; wait until some of "
        )
        sentence += "its jobs end"
    burst = tenant.burst.of(dimension) if dimension != WAITING else 0
    if burst:
        most = limit * BURST_NUM // BURST_DEN
        sentence += f" (with the burst it may have {said(most)}, and {said(burst)} of that {verb} taken, too)"
    sentence += f", or ask {_whom(tenant)} for a higher quota"
    numbers: dict[str, object] = {
        "tenant_id": tenant.tenant_id,
        "resource": _resource(dimension),
        "limit": scale(limit),
        "used": scale(used),
        "burst": scale(burst),
        "asked": scale(asked),
        "would_fit": scale(free),
    }
    return sentence, numbers


def _limit_and_use(tenant: Tenant, dimension: str) -> tuple[int, int]:
    if dimension == WAITING:
        return tenant.job_limits.waiting or 0, tenant.job_use.waiting
    if dimension in _UNITS:
        return getattr(tenant.limits, dimension) or 0, tenant.used.of(dimension)
    return dict(tenant.limits.named).get(dimension, 0), tenant.used.of(dimension)


def _ways_to_say(dimension: str) -> tuple[Callable[[int], object], Callable[[int], object], str]:
    """As a number, as a word, and of what."""
    if dimension in _SIZES:
        return int, size_in_words, _UNITS[dimension]
    if dimension == WAITING:
        return int, str, "jobs"
    if dimension.startswith(GENERIC):
        return int, str, f"of {dimension.removeprefix(GENERIC)}"
    if dimension.startswith(GPU_MODEL):
        return decimal, decimal, f"{dimension.removeprefix(GPU_MODEL)} GPUs"
    return decimal, decimal, _UNITS[dimension]


def _may(dimension: str, limit: object, unit: str) -> str:
    if dimension == WAITING:
        return f"may have {limit} {unit} waiting at once"
    return f"may have {limit} {unit} at once"


def _resource(dimension: str) -> str:
    if dimension.startswith((GENERIC, GPU_MODEL)):
        return dimension
    return QUOTA_NAMES.get(dimension, "waiting_jobs")


def _whom(tenant: Tenant) -> str:
    parent = tenant.parent_id
    return "an administrator" if parent is None else f"an operator of {parent} or an administrator"
