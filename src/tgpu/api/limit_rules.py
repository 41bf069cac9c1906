"""What a task may use at most, as it was asked: at least what it reserves."""

from tgpu.domain.job import Request
from tgpu.domain.quantities import MAX_CPU_MILLI, MAX_MIB, MILLI, BadQuantityError, milli, whole


def cpu_limit(asked: float | None, request: Request) -> int | None:
    if asked is None:
        return None
    limit = milli("cpu_limit", asked, MAX_CPU_MILLI)
    if limit < request.cpu_milli:
        raise BadQuantityError(
            f"cpu_limit must be at least cpu_request, which is {request.cpu_milli / MILLI:g}: raise it, or "
            f"leave it out; got {asked}"
        )
    return limit


def memory_limit(asked: float | None, request: Request) -> int | None:
    if asked is None:
        return None
    limit = whole("mem_limit_mb", asked, MAX_MIB)
    if limit < max(request.memory_mib, 1):
        least = f"mem_request_mb, which is {request.memory_mib}" if request.memory_mib else "1"
        raise BadQuantityError(
            f"mem_limit_mb must be at least {least}: raise it, or leave it out; got {asked}"
        )
    return limit
