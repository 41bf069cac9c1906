"""Could this node ever run such a task, and does it have the room now?"""

from tgpu.core.devices import choose, matches
from tgpu.core.room import WHOLE_GPU, Room
from tgpu.domain.job import Request
from tgpu.domain.node import Node
from tgpu.domain.views import Reason


def unsuitable(request: Request, node: Node) -> Reason | None:
    """Why the node would be wrong even if it were empty."""
    if request.node_id is not None and request.node_id != node.node_id:
        return Reason("other-node", f"its working directory exists only on {request.node_id}")
    if request.pool is not None and request.pool != node.pool:
        return Reason("other-pool", f"it asks for pool {request.pool}")
    if node.serves not in ("*", request.user):
        return Reason("other-user", f"{node.node_id} runs only the jobs of {node.serves}")
    for key, value in request.node_selector:
        if node.labels.get(key) != value:
            return Reason("selector", f"it asks for a node with {key}={value}")
    return too_large(request, node)


def too_large(request: Request, node: Node) -> Reason | None:
    """More than the whole node has."""
    capacity = node.capacity
    if request.gpu_milli:
        fitting = sum(matches(device, request.gpu_type) for device in capacity.devices)
        wanted = max(1, request.gpu_milli // WHOLE_GPU)
        if fitting < wanted:
            kind = f" of type {request.gpu_type}" if request.gpu_type else ""
            return Reason(
                "too-many-gpus",
                f"{gpus(request.gpu_milli)}{kind} asked for, {node.node_id} has {fitting}",
                {"node_id": node.node_id, "asked": request.gpu_milli / 1000, "has": fitting},
            )
    for code, label, asked, has in (
        ("too-many-cpus", "CPUs", request.cpu_milli / 1000, capacity.cpu_milli / 1000),
        ("too-much-memory", "MiB of memory", request.memory_mib, capacity.memory_mib),
        ("too-much-disk", "MiB of disk", request.disk_mib, capacity.disk_mib),
    ):
        if asked > has:
            text = f"{_number(asked)} {_counted(label, asked)} asked for, {node.node_id} has {_number(has)}"
            return Reason(code, text, {"node_id": node.node_id, "asked": asked, "has": has})
    return None


def place(request: Request, node: Node, room: Room) -> tuple[int, ...] | None:
    """The devices it would get there now (none needed: an empty tuple), or None if there is no room."""
    if room.exclusive or (request.exclusive and room.tasks):
        return None
    if (
        request.cpu_milli > room.cpu_milli
        or request.memory_mib > room.memory_mib
        or request.disk_mib > room.disk_mib
    ):
        return None
    return choose(node.capacity.devices, room.gpu_free, request)


def shortages(request: Request, node: Node, room: Room) -> list[Reason]:
    """What is missing on a suitable node now, each with its numbers."""
    found = []
    if room.exclusive or (request.exclusive and room.tasks):
        found.append(Reason("not-alone", f"{node.node_id} is not free for a task that wants it alone"))
    if choose(node.capacity.devices, room.gpu_free, request) is None:
        found.append(_gpu_shortage(request, node, room))
    for code, label, asked, free in (
        ("cpus", "CPUs", request.cpu_milli / 1000, room.cpu_milli / 1000),
        ("memory", "MiB of memory", request.memory_mib, room.memory_mib),
        ("disk", "MiB of disk", request.disk_mib, room.disk_mib),
    ):
        if asked > free:
            wanted = f"{_number(asked)} {_counted(label, asked)}"
            text = f"needs {wanted}; {node.node_id} has {_number(max(free, 0))} free"
            found.append(Reason(code, text, {"node_id": node.node_id, "needs": asked, "free": max(free, 0)}))
    return found


def _gpu_shortage(request: Request, node: Node, room: Room) -> Reason:
    usable = [
        free
        for device, free in zip(node.capacity.devices, room.gpu_free, strict=True)
        if matches(device, request.gpu_type)
    ]
    idle = sum(free == WHOLE_GPU for free in usable)
    kind = f" {request.gpu_type}" if request.gpu_type else ""
    if request.gpu_milli < WHOLE_GPU:
        text = f"needs {gpus(request.gpu_milli)}; no{kind} GPU of {node.node_id} has that much free"
    else:
        text = f"needs {gpus(request.gpu_milli)}; {node.node_id} has {idle} of {len(usable)}{kind} GPUs free"
    data = {"node_id": node.node_id, "needs": request.gpu_milli / 1000, "free": idle, "of": len(usable)}
    return Reason("gpus", text, data)


def _number(value: float) -> str:
    """1048576, not 1.04858e+06; 0.5, not 0.500."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _counted(label: str, number: float) -> str:
    return "CPU" if label == "CPUs" and number == 1 else label


def gpus(gpu_milli: int) -> str:
    count = gpu_milli / WHOLE_GPU
    if gpu_milli < WHOLE_GPU:
        return f"{count:g} of a GPU"
    return f"{count:g} {'GPU' if gpu_milli == WHOLE_GPU else 'GPUs'}"
