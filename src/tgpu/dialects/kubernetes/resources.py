"""requests and limits of a container to what a task reserves and what it may use."""

from collections.abc import Callable, Iterator
from typing import Any

from tgpu.dialects.kubernetes.amounts import Amount, cpu, mebibytes, whole
from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.shape import ResourceRequirements

GPU = "nvidia.com/gpu"
_OF_GPUS = "nvidia.com/"
_DISK = "ephemeral-storage"


def resources(asked: ResourceRequirements, path: str) -> dict[str, Any]:
    """What is only limited is reserved, too, as in Kubernetes."""
    cpus, most_cpus = _pair(asked, path, "cpu", cpu)
    memory, most_memory = _pair(asked, path, "memory", mebibytes)
    if most_memory == 0:
        raise refused(f"{path}.limits[memory]", "must be more than 0: leave it out, or say how much")
    disk, most_disk = _pair(asked, path, _DISK, mebibytes)
    devices = {name: _devices(asked, path, name) for name in _other_names(asked, path)}
    named = {name: count for name, count in devices.items() if count and name != GPU}
    fields = {
        "cpu_request": cpus,
        "cpu_limit": most_cpus,
        "mem_request_mb": memory,
        "mem_limit_mb": most_memory,
        "disk_request_mb": disk if most_disk is None else most_disk,
        "gpu_request": devices.get(GPU) or None,
        "generic": named or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _pair(
    asked: ResourceRequirements, path: str, name: str, read: Callable[[str, Amount], float]
) -> tuple[float | None, float | None]:
    """What is reserved, and the limit."""
    reserved, most = (
        read(f"{path}.{side}[{name}]", amounts[name]) if name in amounts else None
        for side, amounts in (("requests", asked.requests), ("limits", asked.limits))
    )
    if reserved is not None and most is not None and reserved > most:
        raise refused(
            f"{path}.requests[{name}]",
            f"is more than the limit {asked.limits[name]}: got {asked.requests[name]}",
        )
    return (most if reserved is None else reserved), most


def _other_names(asked: ResourceRequirements, path: str) -> Iterator[str]:
    for side, amounts in (("requests", asked.requests), ("limits", asked.limits)):
        for name in amounts:
            if name in ("cpu", "memory", _DISK):
                continue
            if name.startswith(_OF_GPUS) and name != GPU:
                raise refused(f"{path}.{side}[{name}]", f"is not supported: only whole GPUs are, as {GPU}")
            if "/" not in name:
                raise refused(
                    f"{path}.{side}[{name}]",
                    f"is not known: cpu, memory, {_DISK}, {GPU} (whole GPUs) and names with a / are",
                )
            yield name


def _devices(asked: ResourceRequirements, path: str, name: str) -> int:
    """Of what cannot be given to two, request and limit are one number."""
    if name not in asked.limits:
        raise refused(f"{path}.requests[{name}]", f"needs the same limit: say {path}.limits[{name}]")
    most = whole(f"{path}.limits[{name}]", asked.limits[name])
    if name in asked.requests and whole(f"{path}.requests[{name}]", asked.requests[name]) != most:
        raise refused(f"{path}.requests[{name}]", "must be as much as its limit")
    return most
