"""Every entrance of the kernel once, on a small cluster: afterwards all of its compiled code is there."""

from tgpu.core.engine import Engine
from tgpu.core.explain import explain
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request, TaskBrief
from tgpu.domain.lifecycle import NodeState, Status
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, Limits
from tgpu.domain.tenant import Tenant

_POLICY = Policy(
    PoolPolicy(),
    pools={"f": PoolPolicy("fair-tree", "fragmentation"), "s": PoolPolicy("fifo", "spread")},
)


def exercise(engine: Engine) -> None:
    picture = _cluster()
    for job_id, request in enumerate(_requests(), 1):
        picture.add_waiting(_task(job_id, request, PriorityClass.LOW, held=job_id % 2 == 0))
    _add_gang(picture, 40, Gang(2, per_node=1), PriorityClass.LOW, held=True)
    _decide(picture, engine, whole=True)
    _end_all(picture)
    _decide(picture, engine)  # asks what was cured, and starts who held a reservation
    _add_gang(picture, 50, Gang(2, per_node=1), PriorityClass.HIGH)
    _add_gang(picture, 51, Gang(2, topology="rack"), PriorityClass.LOW)
    picture.add_waiting(_task(60, Request(gpu_milli=1000), PriorityClass.REAL_TIME))
    _decide(picture, engine)  # finds victims, and a moment for a gang
    for task_id in list(picture.waiting):
        explain(picture, _POLICY, task_id, engine)
    _end_all(picture)
    _decide(picture, engine)


def _decide(picture: Picture, engine: Engine, *, whole: bool = False) -> None:
    made = plan(picture, _POLICY, whole=whole, engine=engine)
    for start in list(made.starts):
        task = picture.remove_waiting(start.task_id)
        picture.place(task, start.task_id.attempt(1), start.node_id, start.devices, start.admission)
    picture.settle(made)


def _end_all(picture: Picture) -> None:
    for task_id in list(picture.placed):
        picture.release(task_id)


def _cluster() -> Picture:
    picture = Picture(_POLICY)
    picture.set_tenant(
        Tenant("a", limits=Limits(gpu_milli=10_000), job_limits=JobLimits(running=99, gpu_ms=10**9))
    )
    devices = tuple(Device(index, f"gpu{index}", "A", 1000, numa_node=0, island=0) for index in range(2))
    for name, pool in (("n1", "f"), ("n2", "s"), ("n3", "x")):
        capacity = Capacity(8000, 8000, 8000, devices)
        picture.set_node(Node(name, NodeState.READY, capacity, pool, labels={"rack": "r"}))
        picture.set_reachable(name, reachable=True)
    return picture


def _add_gang(
    picture: Picture, job_id: int, gang: Gang, priority_class: PriorityClass, *, held: bool = False
) -> None:
    for index in range(gang.size):
        request = Request(gpu_milli=2000)
        picture.add_waiting(_task(job_id, request, priority_class, index=index, gang=gang, held=held))


def _requests() -> list[Request]:
    return [
        Request(gpu_milli=milli, pool=pool, exclusive=milli == 0, gpu_memory_mib=0 if milli else 100)
        for pool in ("f", "s", None)
        for milli in (500, 500, 1000, 2000, 0)
    ]


def _task(
    job_id: int,
    request: Request,
    priority_class: PriorityClass,
    *,
    index: int = 0,
    gang: Gang | None = None,
    held: bool = False,
) -> TaskBrief:
    return TaskBrief(
        task_id=TaskId(job_id, index),
        status=Status.PENDING,
        request=request,
        user="u",
        tenant_id="a/b",
        name="",
        priority_class=priority_class,
        priority=0,
        submitted_ms=0,
        attempts=0,
        time_limit_s=60,
        max_wait_s=None,
        requeue=True,
        grace_s=None,
        cancel_by=None,
        gang=gang,
        held=held,
    )
