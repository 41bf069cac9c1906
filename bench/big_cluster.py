"""Large clusters and long queues, the same for the same seed."""

import random
from collections.abc import Iterator, Sequence

from tgpu.core.engine import Engine
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Gang, Request, TaskBrief
from tgpu.domain.lifecycle import Cause, NodeState, Status
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.priority import PriorityClass

NODES = 10_000
TENANTS = [f"org{number % 5}/team{number % 40}/person{number}" for number in range(200)]
GIB = 1024
# CPUs, memory, GPUs, their model and memory
MACHINES = ((64, 256, 8, "A100", 80), (128, 1024, 8, "H100", 80), (32, 128, 4, "T4", 16), (96, 512, 0, "", 0))


def empty_cluster(policy: Policy, nodes: int = NODES) -> Picture:
    picture = Picture(policy)
    picture.now_ms = 1_000_000
    capacities = []
    for cpus, memory, gpus, model, gpu_memory in MACHINES:
        devices = [Device(at, f"{at}", model, gpu_memory * GIB, numa_node=at // 4) for at in range(gpus)]
        capacities.append(Capacity(cpus * 1000, memory * GIB, 2000 * GIB, tuple(devices)))
    for number in range(nodes):
        name = f"n{number:05d}"
        labels = {"rack": f"r{number // 32:03d}"}
        capacity = capacities[number % len(capacities)]
        picture.set_node(Node(name, NodeState.READY, capacity, labels=labels))
        picture.set_reachable(name, reachable=True)
    return picture


def small_requests(kinds: int, chance: random.Random) -> list[Request]:
    """Some twenty tasks to a node: CPU only, parts of a GPU, whole ones."""
    gpus = (0, 0, 100, 200, 250, 250, 500, 1000, 1000, 2000)
    return [_request(chance, gpus, chance.randint(1, 8) * 500, number) for number in range(kinds)]


def large_requests(kinds: int, chance: random.Random) -> list[Request]:
    """Some four tasks to a node."""
    gpus = (0, 250, 500, 1000, 1000, 1000, 2000, 4000)
    return [_request(chance, gpus, chance.randint(4, 16) * 1000, number) for number in range(kinds)]


def _request(chance: random.Random, gpus: Sequence[int], cpu_milli: int, number: int) -> Request:
    gpu_milli = chance.choice(gpus)
    return Request(
        cpu_milli=cpu_milli + number,  # so that no two kinds are one
        memory_mib=chance.randint(1, 32) * GIB,
        disk_mib=chance.randint(0, 20) * GIB,
        gpu_milli=gpu_milli,
        gpu_type=chance.choice((None, None, None, "a100", "h100")) if gpu_milli else None,
    )


def tasks(
    count: int,
    requests: Sequence[Request],
    chance: random.Random,
    classes: Sequence[PriorityClass] = (PriorityClass.DEFAULT,),
    first_job: int = 1,
) -> Iterator[TaskBrief]:
    for number in range(count):
        limit_s = chance.randint(600, 86_400)
        request, tenant = chance.choice(requests), chance.choice(TENANTS)
        yield task(first_job + number, request, chance.choice(classes), tenant=tenant, limit_s=limit_s)


def task(
    job_id: int,
    request: Request,
    priority_class: PriorityClass,
    *,
    tenant: str = TENANTS[0],
    limit_s: int = 3600,
    index: int = 0,
    gang: Gang | None = None,
) -> TaskBrief:
    return TaskBrief(
        task_id=TaskId(job_id, index),
        status=Status.PENDING,
        request=request,
        user="user",
        tenant_id=tenant,
        name="task",
        priority_class=priority_class,
        priority=0,
        submitted_ms=job_id,
        attempts=0,
        time_limit_s=limit_s,
        max_wait_s=None,
        requeue=True,
        grace_s=None,
        cancel_by=None,
        gang=gang,
    )


def carry_out(picture: Picture, made: Plan) -> None:
    """As the control loop does, without a store."""
    picture.fulfil({start.task_id for start in made.starts})
    for start in list(made.starts):
        waiting = picture.remove_waiting(start.task_id)
        placed = picture.place(waiting, start.task_id.attempt(1), start.node_id, start.devices)
        picture.started(placed, picture.now_ms)
    for preempt in made.preempts:
        picture.preempt(preempt)
        for victim in preempt.victims:
            picture.stopping(picture.placed[victim.task_id], Cause.PREEMPTED)
    picture.settle(made)


def settle(picture: Picture, engine: Engine) -> None:
    made = plan(picture, picture.policy, whole=True, engine=engine)
    while True:
        carry_out(picture, made)
        if not made.more and not made.starts and not made.preempts:
            return
        made = plan(picture, picture.policy, engine=engine)
