"""What one node has left, and what a request would get of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tgpu.core.policy import Policy
from tgpu.domain.gpu_words import folded
from tgpu.domain.job import Request
from tgpu.domain.node import Device, Node

WHOLE = 1000


@dataclass(frozen=True)
class Room:
    free: Mapping[str, int]
    """CPU, memory, disk, then generic resources by name."""
    gpu: tuple[int, ...]
    """Thousandths left of each device, by position."""
    tasks: int
    alone: bool


def needs(request: Request) -> dict[str, int]:
    """Everything but GPUs, in the order in which scores are summed up."""
    basic = {"cpu": request.cpu_milli, "memory": request.memory_mib, "disk": request.disk_mib}
    return basic | dict(sorted(request.generic))


def capacity(node: Node, policy: Policy) -> dict[str, int]:
    pool = policy.of(node.pool)
    return {
        "cpu": node.capacity.cpu_milli * pool.cpu_overcommit // 1000,
        "memory": node.capacity.memory_mib * pool.memory_overcommit // 1000,
        "disk": node.capacity.disk_mib,
    } | dict(node.capacity.generic)


def wants_gpus(request: Request) -> bool:
    return request.gpu_milli > 0 or request.gpu_memory_mib > 0


def devices_wanted(request: Request) -> int:
    return max(1, request.gpu_milli // WHOLE) if wants_gpus(request) else 0


def part_of(device: Device, request: Request) -> int:
    """Thousandths that the request would take of this device; 0: it does not suit."""
    if not device.is_usable or device.memory_mib < request.gpu_memory_mib:
        return 0
    if request.gpu_type is not None and folded(request.gpu_type) not in folded(device.model):
        return 0
    if any(barred in device.model.lower() for barred in request.gpu_types_barred):
        return 0
    if request.gpu_milli:
        return min(request.gpu_milli, WHOLE)
    return -(-request.gpu_memory_mib * WHOLE // device.memory_mib)


def parts(node: Node, request: Request) -> list[int]:
    return [part_of(device, request) if wants_gpus(request) else 0 for device in node.capacity.devices]


def devices_in(request: Request, node: Node, room: Room) -> tuple[int, ...] | None:
    """The positions of the devices it would get; None: there is no room."""
    if room.alone or (request.exclusive and room.tasks):
        return None
    if any(need > room.free.get(name, 0) for name, need in needs(request).items() if need):
        return None
    if not wants_gpus(request):
        return ()
    fitting = [at for at, part in enumerate(parts(node, request)) if 0 < part <= room.gpu[at]]
    if len(fitting) < devices_wanted(request):
        return None
    if request.gpu_milli < WHOLE:
        return (min(fitting, key=lambda at: (room.gpu[at], at)),)
    return _together(fitting, devices_wanted(request), node)


def _together(fitting: list[int], count: int, node: Node) -> tuple[int, ...]:
    devices = node.capacity.devices
    for groups in (
        _groups(fitting, [device.island for device in devices]),
        _groups(fitting, [device.numa_node for device in devices]),
    ):
        large = [group for group in groups if len(group) >= count]
        if large:
            return tuple(min(large, key=lambda group: (len(group), group[0]))[:count])
    return tuple(fitting[:count])


def _groups(fitting: list[int], numbers: list[int | None]) -> Iterator[list[int]]:
    for number in {numbers[at] for at in fitting} - {None}:
        yield [at for at in fitting if numbers[at] == number]


def score(request: Request, node: Node, room: Room, policy: Policy) -> float:
    whole = capacity(node, policy)
    scorer = policy.of(request.pool).scorer
    total = 0.0
    for name, need in needs(request).items():
        if need and name not in policy.cluster_generic:
            total += need / room.free[name] if scorer == "tightest" else room.free[name] / whole[name]
    if not wants_gpus(request):
        return total - sum(room.gpu) / WHOLE if scorer == "tightest" else total
    suiting = {at: part for at, part in enumerate(parts(node, request)) if part}
    left = sum(max(0, room.gpu[at]) for at in suiting)  # where victims have yet to go it is negative
    if scorer == "tightest":
        first = next(iter(suiting.values()))
        return total + (request.gpu_milli if request.gpu_milli >= WHOLE else first) / left
    assert scorer == "spread", "the reference knows two scorers"
    return total + left / (len(suiting) * WHOLE)
