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


def check_capacity(node_id: str, capacity: Capacity, licences: Collection[str] = ()) -> None:
    """`licences`: names of what the cluster as a whole has, which no node may bring."""
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
        if resource in licences:
            raise BadPictureError(
                f"{name} offers {resource!r}, which is a licence of the whole cluster (cluster_generic of "
                "the server): rename it in the node's node_generic, or leave it out"
            )


def check_task(task: TaskBrief) -> None:
    """Every task comes by here: its name is put into words only if something is wrong."""
    wrong = _wrong_request(task.request)
    if wrong is None and task.time_limit_s is not None:
        wrong = _wrong("time_limit_s", task.time_limit_s, MAX_SECONDS)
    if wrong is None and task.gang is not None and task.gang.size < 1:
        wrong = f"a gang has at least one task, not {task.gang.size}"
    if wrong is not None:
        raise BadPictureError(f"task {task.task_id}: {wrong}")


def _wrong_request(request: Request) -> str | None:
    wrong = (
        _wrong("cpu_milli", request.cpu_milli, MAX_CPU_MILLI)
        or _wrong("memory_mib", request.memory_mib, MAX_MIB)
        or _wrong("disk_mib", request.disk_mib, MAX_MIB)
        or _wrong("gpu_milli", request.gpu_milli, MAX_GPU_MILLI)
        or _wrong("gpu_memory_mib", request.gpu_memory_mib, MAX_MIB)
    )
    if wrong is None and request.gpu_milli > 1000 and request.gpu_milli % 1000:  # noqa: PLR2004  one whole GPU
        return f"{request.gpu_milli} thousandths are neither a part nor whole GPUs"
    for resource, amount in request.generic:
        wrong = wrong or _wrong(resource, amount, MAX_GENERIC)
    return wrong


def check_tenant(tenant: Tenant, known: Collection[str]) -> None:
    if not 1 <= tenant.weight <= MAX_WEIGHT:
        raise BadPictureError(
            f"tenant {tenant.tenant_id} has weight {tenant.weight}; it must be from 1 to {MAX_WEIGHT}"
        )
    if tenant.parent_id is not None and tenant.parent_id not in known:
        raise BadPictureError(f"tenant {tenant.tenant_id} has no parent: there is no {tenant.parent_id}")


def _check(name: str, value: int, most: int) -> None:
    wrong = _wrong(name, value, most)
    if wrong is not None:
        raise BadPictureError(wrong)


def _wrong(name: str, value: int, most: int) -> str | None:
    return None if 0 <= value <= most else f"{name} is {value}; it must be from 0 to {most}"
