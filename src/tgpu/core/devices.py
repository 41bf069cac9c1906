"""Which devices inside a node a task gets: fractions onto the tightest shared one, whole ones together."""

from collections.abc import Sequence

from tgpu.core.room import WHOLE_GPU
from tgpu.domain.job import Request
from tgpu.domain.node import Device


def matches(device: Device, gpu_type: str | None) -> bool:
    """`a100` names an `NVIDIA A100-SXM4-80GB`; case does not matter."""
    return device.healthy and (gpu_type is None or gpu_type.lower() in device.model.lower())


def choose(devices: Sequence[Device], free: Sequence[int], request: Request) -> tuple[int, ...] | None:
    """Positions in the node's device list, or None if there are too few; equal input, equal choice."""
    if request.gpu_milli == 0:
        return ()
    usable = [position for position, device in enumerate(devices) if matches(device, request.gpu_type)]
    if request.gpu_milli < WHOLE_GPU:
        sharable = [position for position in usable if free[position] >= request.gpu_milli]
        return (min(sharable, key=lambda position: (free[position], position)),) if sharable else None
    count = request.gpu_milli // WHOLE_GPU
    idle = [position for position in usable if free[position] == WHOLE_GPU]
    return _together(devices, idle, count) if len(idle) >= count else None


def _together(devices: Sequence[Device], idle: Sequence[int], count: int) -> tuple[int, ...]:
    """Inside one NUMA node where possible, in the one that is left with the least."""
    islands: dict[int | None, list[int]] = {}
    for position in idle:
        islands.setdefault(devices[position].numa_node, []).append(position)
    wide_enough = [island for island in islands.values() if len(island) >= count]
    chosen = min(wide_enough, key=lambda island: (len(island), island[0])) if wide_enough else idle
    return tuple(chosen[:count])
