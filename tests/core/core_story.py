"""Pictures in few words: nodes, who waits, and who holds what."""

from collections.abc import Iterable
from typing import Any

from tgpu.core.picture import Picture
from tgpu.core.plan import Claim, Plan, Preempt, Reservation, Start
from tgpu.core.policy import Policy, named
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request, TaskBrief
from tgpu.domain.lifecycle import Cause, NodeState, Status
from tgpu.domain.node import Capacity, Device, ForeignUse, Node
from tgpu.domain.priority import PriorityClass

PRIORITY = named("priority")
FIFO = named("fifo")
DRF = named("drf")

NOW_MS = 1_000_000_000
HOUR_S = 3600


def at(seconds: int) -> int:
    """So many seconds after the moment at which every story is told."""
    return NOW_MS + 1000 * seconds


def device(
    index: int,
    model: str = "NVIDIA A100",
    numa: int | None = None,
    *,
    healthy: bool = True,
    memory_mib: int = 81920,
    island: int | None = None,
    note: str = "",
    foreign: tuple[ForeignUse, ...] = (),
) -> Device:
    return Device(
        index,
        f"GPU-{index}",
        model,
        memory_mib,
        healthy,
        numa,
        note,
        island,
        foreign=foreign,
        avoided=bool(foreign),
    )


def node(
    node_id: str = "n1",
    cpus: int = 8,
    memory_mib: int = 16384,
    gpus: int | Iterable[Device] = 0,
    state: NodeState = NodeState.READY,
    *,
    generic: dict[str, int] | None = None,
    **more: Any,
) -> Node:
    devices = tuple(device(index) for index in range(gpus)) if isinstance(gpus, int) else tuple(gpus)
    return Node(node_id, state, Capacity(cpus * 1000, memory_mib, 1000, devices, generic or {}), **more)


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
    index: int = 0,
    **more: Any,
) -> TaskBrief:
    """Submitted in the order of the ids, shortly before now, unless something else is said."""
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
        task_id=TaskId(job_id, index),
        request=asks() if request is None else request,
        user=user,
        priority_class=priority_class,
        priority=priority,
        submitted_ms=NOW_MS - 1000 + job_id if submitted_ms is None else submitted_ms,
        **facts,
    )


def gang(job_id: int, requests: Iterable[Request], *args: Any, **more: Any) -> list[TaskBrief]:
    """All tasks of one job; `per_node`, `nodes` and `topology` are the gang's, all else is each task's."""
    asked = list(requests)
    terms = {name: more.pop(name) for name in ("per_node", "nodes", "topology") if name in more}
    whole = Gang(len(asked), **terms)
    return [
        task(job_id, request, *args, index=index, gang=whole, **more) for index, request in enumerate(asked)
    ]


def picture_of(
    nodes: Iterable[Node],
    waiting: Iterable[TaskBrief] = (),
    placed: Iterable[tuple[TaskBrief, str, tuple[int, ...]]] = (),
    policy: Policy = PRIORITY,
) -> Picture:
    """`placed`: a task, its node and its devices, started just now; all nodes are connected."""
    picture = Picture(policy)
    picture.now_ms = NOW_MS
    for each in nodes:
        picture.set_node(each)
        picture.set_reachable(each.node_id, reachable=True)
    for holder, node_id, devices in placed:
        running = picture.place(holder, holder.task_id.attempt(1), node_id, devices)
        picture.started(running, NOW_MS)
    for each_task in waiting:
        picture.add_waiting(each_task)
    return picture


def start(job_id: int, node_id: str = "n1", *devices: int, index: int = 0, **more: Any) -> Start:
    return Start(TaskId(job_id, index), node_id, devices, **more)


def claim(job_id: int, node_id: str = "n1", *devices: int, index: int = 0) -> Claim:
    return Claim(TaskId(job_id, index), node_id, devices)


def preempt(victims: Iterable[int], *claims: Claim) -> Preempt:
    """Victims by job: their first task's first attempt."""
    return Preempt(tuple(TaskId(job_id, 0).attempt(1) for job_id in victims), claims)


def reservation(job_id: int, in_s: int, node_id: str = "n1", *devices: int) -> Reservation:
    return Reservation((TaskId(job_id, 0),), at(in_s), ((node_id, devices),))


def carry_out(picture: Picture, made: Plan) -> None:
    """The picture takes the plan as done, as the control plane does."""
    picture.fulfil({each.task_id for each in made.starts})
    for each in made.starts:
        task_now = picture.remove_waiting(each.task_id)
        attempt_id = each.task_id.attempt(task_now.attempts + 1)
        picture.place(task_now, attempt_id, each.node_id, each.devices, each.admission)
    for stop in made.preempts:
        picture.preempt(stop)
        for victim in stop.victims:
            placed = picture.live(victim)
            assert placed is not None, f"{victim} is to be stopped and does not run"
            picture.stopping(placed, Cause.PREEMPTED)
    picture.settle(made)


def decisions(made: Plan) -> tuple[object, ...]:
    """What a plan decides, without what it remembers."""
    return made.starts, made.preempts, made.reservations
