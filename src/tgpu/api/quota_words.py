"""A refused submission in words and numbers: what was asked, what is used, what would fit."""

from tgpu.api.edge import QUOTA_NAMES, decimal
from tgpu.domain.quantities import size_in_words
from tgpu.store.port import QuotaExceededError

_UNITS = {"cpu_milli": "CPUs", "memory_mib": "of memory", "disk_mib": "of disk", "gpu_milli": "GPUs"}


def quota_sentence(error: QuotaExceededError) -> tuple[str, dict[str, object]]:
    tenant, dimension = error.tenant, error.dimension
    limit = getattr(tenant.limits, dimension) or 0
    used, asked = getattr(tenant.used, dimension), getattr(error.asked, dimension)
    free = max(limit - used, 0)
    counted = dimension.endswith("_milli")
    scale = decimal if counted else int
    said = decimal if counted else size_in_words
    room = f"Up to {said(free)} would fit now" if free else "Nothing fits now"
    unit, name = _UNITS[dimension], QUOTA_NAMES[dimension]
    sentence = (
        f"tenant {tenant.tenant_id} may have {said(limit)} {unit} at once and {said(used)} "
        f"{'are' if counted else 'is'} taken; this asks for {said(asked)} more. {room}; "
        "wait until some of its jobs end, or ask an administrator for a higher quota"
    )
    numbers: dict[str, object] = {
        "tenant_id": tenant.tenant_id,
        "resource": name,
        "limit": scale(limit),
        "used": scale(used),
        "asked": scale(asked),
        "would_fit": scale(free),
    }
    return sentence, numbers
