"""A refused submission in words and numbers: what was asked, is used and would fit, and whom to ask."""

from collections.abc import Callable

from tgpu.api.edge import QUOTA_NAMES, decimal, gpu_hours
from tgpu.api.roles import managers_of
from tgpu.domain.quantities import MILLI, size_in_words, time_in_words
from tgpu.domain.quota import GENERIC, GPU_MODEL, Period
from tgpu.domain.tenant import Tenant
from tgpu.store.quota_port import QuotaExceededError

WAITING = "waiting"
GPU_MS = "gpu_ms"
_UNITS = {"cpu_milli": "CPU", "memory_mib": "of memory", "disk_mib": "of disk", "gpu_milli": "GPU"}
_SIZES = ("memory_mib", "disk_mib")
_MINUTE_S = 60


def quota_sentence(error: QuotaExceededError) -> tuple[str, dict[str, object]]:
    tenant, dimension, asked = error.tenant, error.dimension, error.asked
    if dimension == GPU_MS:
        return _hours_sentence(error)
    limit, used = _limit_and_use(tenant, dimension)
    free = max(limit - used, 0)
    scale, said = _ways_to_say(dimension)
    sentence = f"tenant {tenant.tenant_id} may have {_amount(dimension, limit)} "
    sentence += "waiting at once" if dimension == WAITING else "at once"
    if asked > limit:
        sentence += f"; this asks for {said(asked)}, which is more than the whole limit: ask for less"
    else:
        room = f"Up to {said(free)} would fit now" if free else "Nothing fits now"
        sentence += (
            f" and {said(used)} {_are(dimension, used)} taken; this asks for {said(asked)} more. {room}; "
            "wait until some of its jobs end"
        )
    burst = tenant.burst.of(dimension) if dimension != WAITING else 0
    sentence += f", or ask {managers_of(tenant.tenant_id)} for a higher quota{_burst(error)}"
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


def _burst(error: QuotaExceededError) -> str:
    """Why it may not run on the burst, where there is one."""
    bar = error.no_burst
    if bar is None:
        return ""
    if bar.tenant_id is None:
        return ". It may not run on the burst, which is for jobs of class low"
    same = bar == (error.tenant.tenant_id, error.dimension)
    which = "that limit" if same else f"what tenant {bar.tenant_id} may have of {_resource(bar.dimension)}"
    return f". It is too large for the burst, too: alone it is more than half of {which}"


def _hours_sentence(error: QuotaExceededError) -> tuple[str, dict[str, object]]:
    """Only who asks for more than a whole period has is refused for its GPU-hours."""
    tenant, longest_s = error.tenant, error.longest_limit_s or 0
    limit, used, period = tenant.job_limits.gpu_ms or 0, tenant.job_use.gpu_ms, tenant.job_limits.period
    longest_s -= longest_s % _MINUTE_S if longest_s > _MINUTE_S else 0
    fewer = f"at most --time {time_in_words(longest_s)}, or fewer GPUs" if longest_s > 0 else "fewer GPUs"
    sentence = (
        f"tenant {tenant.tenant_id} may use {gpu_hours(limit)} GPU-hour{'' if gpu_hours(limit) == 1 else 's'}"
        f"{'' if period is Period.EVER else f' a {period}'}; this may take {gpu_hours(error.asked)} until "
        f"its time limit and grace are over, which is more than the whole limit: ask for {fewer}, or ask "
        f"{managers_of(tenant.tenant_id)} for a higher quota"
    )
    numbers: dict[str, object] = {
        "tenant_id": tenant.tenant_id,
        "resource": "gpu_hours",
        "limit": gpu_hours(limit),
        "used": gpu_hours(used),
        "burst": 0,
        "asked": gpu_hours(error.asked),
        "would_fit": gpu_hours(max(limit - used, 0)),
    }
    return sentence, numbers | ({"longest_time_limit_s": longest_s} if longest_s > 0 else {})


def _limit_and_use(tenant: Tenant, dimension: str) -> tuple[int, int]:
    if dimension == WAITING:
        return tenant.job_limits.waiting or 0, tenant.job_use.waiting
    if dimension in _UNITS:
        return getattr(tenant.limits, dimension) or 0, tenant.used.of(dimension)
    return dict(tenant.limits.named).get(dimension, 0), tenant.used.of(dimension)


def _ways_to_say(dimension: str) -> tuple[Callable[[int], object], Callable[[int], object]]:
    """As a number, and as a word."""
    if dimension in _SIZES:
        return int, size_in_words
    if dimension == WAITING or dimension.startswith(GENERIC):
        return int, str
    return decimal, decimal


def _amount(dimension: str, amount: int) -> str:
    """`1 GPU`, `2 a100 GPUs`, `16 GiB of memory`, `2 of licence`, `1 job`."""
    said = _ways_to_say(dimension)[1](amount)
    if dimension in _SIZES:
        return f"{said} {_UNITS[dimension]}"
    if dimension.startswith(GENERIC):
        return f"{said} of {dimension.removeprefix(GENERIC)}"
    if dimension == WAITING:
        unit = "job"
    elif dimension.startswith(GPU_MODEL):
        unit = f"{dimension.removeprefix(GPU_MODEL)} GPU"
    else:
        unit = _UNITS[dimension]
    return f"{said} {unit}" if _is_one(dimension, amount) else f"{said} {unit}s"


def _are(dimension: str, amount: int) -> str:
    return "is" if dimension in _SIZES or _is_one(dimension, amount) else "are"


def _is_one(dimension: str, amount: int) -> bool:
    return amount == (1 if dimension == WAITING or dimension.startswith(GENERIC) else MILLI)


def _resource(dimension: str) -> str:
    if dimension.startswith((GENERIC, GPU_MODEL)):
        return dimension
    return QUOTA_NAMES.get(dimension, "waiting_jobs")
