"""Pictures in few words: nodes, who waits, and who holds what."""

from collections.abc import Iterable
from typing import Any

from tgpu.core.picture import Picture
from tgpu.core.policy import Policy, named
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import NodeState, Status
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass

PRIORITY = named("priority")
FIFO = named("fifo")


def device(
    index: int, model: str = "NVIDIA A100", numa: int | None = None, *, healthy: bool = True
) -> Device:
    return Device(index, f"GPU-{index}", model, 81920, healthy, numa)


def node(
    node_id: str = "n1",
    cpus: int = 8,
    memory_mib: int = 16384,
    gpus: int | Iterable[Device] = 0,
    state: NodeState = NodeState.READY,
    **more: Any,
) -> Node:
    devices = tuple(device(index) for index in range(gpus)) if isinstance(gpus, int) else tuple(gpus)
    return Node(node_id, state, Capacity(cpus * 1000, memory_mib, 1000, devices), **more)


def asks(
    gpus: float = 0, cpus: float = 1, memory_mib: int = 0, gpu_type: str | None = None, **more: Any
) -> Request:
    return Request(round(cpus * 1000), memory_mib, 0, round(gpus * 1000), gpu_type, **more)


def task(
    job_id: int,
    request: Request | None = None,
    priority_class: PriorityClass = PriorityClass.DEFAULT,
    priority: int = 0,
    *,
    submitted_ms: int | None = None,
    user: str = "ada",
    **more: Any,
) -> TaskBrief:
    """Submitted in the order of the ids unless something else is said."""
    facts: dict[str, Any] = {
        "status": Status.PENDING,
        "tenant_id": "default",
        "name": "",
        "attempts": 0,
        "time_limit_s": None,
        "max_wait_s": None,
        "requeue": True,
        "grace_s": None,
        "cancel_by": None,
    } | more
    return TaskBrief(
        task_id=TaskId(job_id, 0),
        request=asks() if request is None else request,
        user=user,
        priority_class=priority_class,
        priority=priority,
        submitted_ms=job_id if submitted_ms is None else submitted_ms,
        **facts,
    )


def picture_of(
    nodes: Iterable[Node],
    waiting: Iterable[TaskBrief] = (),
    placed: Iterable[tuple[TaskBrief, str, tuple[int, ...]]] = (),
    policy: Policy = PRIORITY,
) -> Picture:
    """`placed`: a task, its node and its devices; all nodes are connected."""
    picture = Picture(policy.order)
    for each in nodes:
        picture.set_node(each)
        picture.set_reachable(each.node_id, reachable=True)
    for holder, node_id, devices in placed:
        picture.place(holder, holder.task_id.attempt(1), node_id, devices)
    for each_task in waiting:
        picture.add_waiting(each_task)
    return picture
