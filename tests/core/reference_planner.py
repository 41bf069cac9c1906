"""The same decisions, slowly and plainly: every waiting task in turn, every node, nothing clever."""

from copy import deepcopy

from tgpu.core.picture import Picture
from tgpu.core.plan import Hold, Start
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Device, Node


class Bench:
    """One node with what is left of it."""

    def __init__(self, node: Node, reachable: bool) -> None:
        self.node = node
        self.open = reachable and node.state is NodeState.READY
        self.cpu, self.memory = node.capacity.cpu_milli, node.capacity.memory_mib
        self.free = {device.index: 1000 for device in node.capacity.devices}
        self.tasks = 0
        self.closed = False

    def suits(self, device: Device, request: Request) -> bool:
        wanted = (request.gpu_type or "").lower()
        return device.healthy and wanted in device.model.lower()

    def could_ever(self, request: Request) -> bool:
        whole = self.node.capacity
        suiting = [device for device in whole.devices if self.suits(device, request)]
        enough = not request.gpu_milli or len(suiting) >= max(1, request.gpu_milli // 1000)
        return (
            self.open
            and enough
            and request.cpu_milli <= whole.cpu_milli
            and request.memory_mib <= whole.memory_mib
        )

    def devices_for(self, request: Request) -> list[int] | None:
        """Whose indices it would get, or None: there is no room now."""
        if self.closed or (request.exclusive and self.tasks):
            return None
        if request.cpu_milli > self.cpu or request.memory_mib > self.memory:
            return None
        suiting = [device for device in self.node.capacity.devices if self.suits(device, request)]
        if not request.gpu_milli:
            return []
        if request.gpu_milli < 1000:
            fitting = [device for device in suiting if self.free[device.index] >= request.gpu_milli]
            fitting.sort(key=lambda device: self.free[device.index])
            return [device.index for device in fitting[:1]] or None
        idle = [device for device in suiting if self.free[device.index] == 1000]
        count = request.gpu_milli // 1000
        if len(idle) < count:
            return None
        islands = [[d for d in idle if d.numa_node == numa] for numa in {d.numa_node: None for d in idle}]
        islands = sorted((island for island in islands if len(island) >= count), key=len)
        return [device.index for device in (islands[0] if islands else idle)[:count]]

    def take(self, request: Request, devices: list[int]) -> None:
        self.cpu -= request.cpu_milli
        self.memory -= request.memory_mib
        for index in devices:
            self.free[index] -= min(1000, request.gpu_milli)
        self.tasks += 1
        self.closed = self.closed or request.exclusive

    def score(self, request: Request) -> float:
        left = sum(self.free.values())
        score = request.cpu_milli / self.cpu if self.cpu else 0.0
        score += request.memory_mib / self.memory if self.memory else 0.0
        if request.gpu_milli:
            return score + (request.gpu_milli / left if left else 0.0)
        return score - left / 1000

    def usable(self, request: Request) -> list[int]:
        if not request.gpu_milli:
            return []
        free = [
            (-self.free[d.index], at, d.index)
            for at, d in enumerate(self.node.capacity.devices)
            if self.suits(d, request)
            and (self.free[d.index] == 1000 if request.gpu_milli >= 1000 else self.free[d.index] > 0)
        ]
        return [index for _, _, index in sorted(free)[: max(1, request.gpu_milli // 1000)]]

    def missing(self, request: Request) -> float:
        gpus = sum(self.free[index] for index in self.usable(request))
        wants = (
            (request.cpu_milli, self.cpu),
            (request.memory_mib, self.memory),
            (request.gpu_milli, gpus),
        )
        return sum(max(0, asked - free) / asked for asked, free in wants if asked)

    def keep(self, request: Request) -> None:
        self.cpu -= min(self.cpu, request.cpu_milli)
        self.memory -= min(self.memory, request.memory_mib)
        for index in self.usable(request):
            self.free[index] = 0
        self.closed = self.closed or request.exclusive


def reference_plan(picture: Picture) -> tuple[list[Start], Hold | None]:
    benches = [_bench(place.node, place.reachable, picture) for place in picture.places.values()]
    starts: list[Start] = []
    hold: Hold | None = None
    for task_id in picture.in_order():
        request = picture.waiting[task_id].request
        suitable = [bench for bench in benches if bench.could_ever(request)]
        fitting = [bench for bench in suitable if bench.devices_for(request) is not None]
        if fitting:
            best = max(fitting, key=lambda bench: bench.score(request))
            devices = best.devices_for(request) or []
            starts.append(Start(task_id, best.node.node_id, tuple(devices)))
            best.take(request, devices)
        elif suitable and hold is None:
            nearest = min(suitable, key=lambda bench: (bench.missing(request), bench.node.node_id))
            hold = Hold(task_id, nearest.node.node_id)
            nearest.keep(request)
    return starts, hold


def _bench(node: Node, reachable: bool, picture: Picture) -> Bench:
    bench = Bench(deepcopy(node), reachable)
    for placed in picture.placed.values():
        if placed.node_id == node.node_id:
            bench.take(placed.task.request, list(placed.devices))
    return bench
