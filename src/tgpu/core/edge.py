"""What may enter a picture: everything else is refused by name, before it can make a plan wrong."""

from collections.abc import Collection

from tgpu.core.columns.node_columns import MAX_DEVICES
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Capacity, Node
from tgpu.domain.quantities import MAX_CPU_MILLI, MAX_GPU_MILLI, MAX_MIB, MAX_SECONDS
from tgpu.domain.tenant import Tenant

MAX_WEIGHT = 10**9
MAX_GENERIC = 2**40


class BadPictureError(ValueError):
    """Its text names what is wrong."""


def check_node(node: Node) -> None:
    check_capacity(node.node_id, node.capacity)


def check_capacity(node_id: str, capacity: Capacity) -> None:
    name = f"node {node_id}"
    indices = [device.index for device in capacity.devices]
    for index in indices:
        if indices.count(index) > 1:
            raise BadPictureError(f"{name} has device {index} twice")
    if len(indices) > MAX_DEVICES:
        raise BadPictureError(f"{name} has {len(indices)} devices; at most {MAX_DEVICES} can be told apart")
    _check(f"{name}: cpu_milli", capacity.cpu_milli, MAX_CPU_MILLI)
    _check(f"{name}: memory_mib", capacity.memory_mib, MAX_MIB)
    _check(f"{name}: disk_mib", capacity.disk_mib, MAX_MIB)
    for resource, amount in capacity.generic.items():
        _check(f"{name}: {resource}", amount, MAX_GENERIC)


def check_task(task: TaskBrief) -> None:
    request, name = task.request, f"task {task.task_id}"
    check_request(request, name)
    if task.time_limit_s is not None:
        _check(f"{name}: time_limit_s", task.time_limit_s, MAX_SECONDS)
    if task.gang is not None and task.gang.size < 1:
        raise BadPictureError(f"{name}: a gang has at least one task, not {task.gang.size}")


def check_request(request: Request, name: str) -> None:
    _check(f"{name}: cpu_milli", request.cpu_milli, MAX_CPU_MILLI)
    _check(f"{name}: memory_mib", request.memory_mib, MAX_MIB)
    _check(f"{name}: disk_mib", request.disk_mib, MAX_MIB)
    _check(f"{name}: gpu_milli", request.gpu_milli, MAX_GPU_MILLI)
    _check(f"{name}: gpu_memory_mib", request.gpu_memory_mib, MAX_MIB)
    if request.gpu_milli > 1000 and request.gpu_milli % 1000:  # noqa: PLR2004  one whole GPU
        raise BadPictureError(f"{name}: {request.gpu_milli} thousandths are neither a part nor whole GPUs")
    for resource, amount in request.generic:
        _check(f"{name}: {resource}", amount, MAX_GENERIC)


def check_tenant(tenant: Tenant, known: Collection[str]) -> None:
    if not 1 <= tenant.weight <= MAX_WEIGHT:
        raise BadPictureError(
            f"tenant {tenant.tenant_id} has weight {tenant.weight}; it must be from 1 to {MAX_WEIGHT}"
        )
    if tenant.parent_id is not None and tenant.parent_id not in known:
        raise BadPictureError(f"tenant {tenant.tenant_id} has no parent: there is no {tenant.parent_id}")


def _check(name: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise BadPictureError(f"{name} is {value}; it must be from 0 to {most}")
