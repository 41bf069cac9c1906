"""Short words for the stories of the store's tests."""

from collections.abc import Callable
from dataclasses import replace

from tgpu.domain.access import Actor
from tgpu.domain.ids import AttemptId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Exit, Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening, NodeState
from tgpu.domain.node import Capacity, Device, Node
from tgpu.domain.series import Mode, Series
from tgpu.domain.tenant import Tenant
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started, Store

ROOT = Actor("root", "socket")


def setting(**fields: object) -> Callable[[Tenant], Tenant]:
    """A change of a tenant."""
    return lambda tenant: replace(tenant, **fields)  # type: ignore[arg-type]


async def a_tenant(store: Store, tenant_id: str, weight: int = 1, **fields: object) -> Tenant:
    return await store.create_tenant(Tenant(tenant_id, weight, **fields), ROOT, 1)  # type: ignore[arg-type]


def a_job(
    user: str = "ann", name: str = "", tenant_id: str = "default", gpu_milli: int = 1000, **fields: object
) -> JobSpec:
    request = Request(cpu_milli=500, memory_mib=64, disk_mib=8, gpu_milli=gpu_milli, user=user)
    group = Group(("python", "train.py"), request, cwd="/home", env={"LR": "0.1"})
    return JobSpec(user, (group,), name, tenant_id, **fields)  # type: ignore[arg-type]


def an_array(tasks: int = 100_000, at_once: int | None = None, **fields: object) -> JobSpec:
    mode = fields.pop("mode", Mode.ARRAY)
    spec = a_job(**fields)  # type: ignore[arg-type]
    group = replace(spec.groups[0], tasks=tasks)
    return replace(spec, groups=(group,), series=Series(IndexSet.first(tasks), at_once, mode))  # type: ignore[arg-type]


def a_node(name: str = "n1", state: NodeState = NodeState.READY) -> Node:
    devices = (
        Device(0, "GPU-0", "A100", 81920),
        Device(1, "GPU-1", "A100", 81920, healthy=False, numa_node=1),
    )
    return Node(
        name, state, Capacity(8000, 1024, 10_000, devices, {"licence": 2}), labels={"a": "b"}, taints=("t",)
    )


def nth(number: int, job_id: int = 1) -> AttemptId:
    return AttemptId(job_id, 0, number)


def assign(job_id: int = 1, number: int = 1) -> Assigned:
    return Assigned(nth(number, job_id), "n1", (0, 2))


def end(
    happening: Happening,
    cause: Cause = Cause.EXITED,
    exit_code: int | None = 0,
    job_id: int = 1,
    number: int = 1,
) -> AttemptEnded:
    ended = Exit(cause, exit_code, started_ms=21, ended_ms=90, cpu_ms=5, peak_memory_mib=6)
    return AttemptEnded(nth(number, job_id), ended, happening, "as told")


async def running(store: Store, spec: JobSpec | None = None) -> int:
    """A claimed store with job 1 running; returns the epoch."""
    epoch = await store.claim()
    await store.submit([spec or a_job()], 10)
    receipt = await store.commit(epoch, Batch(15, assigned=[assign()]))
    assert not receipt.refused
    receipt = await store.commit(epoch, Batch(25, started=[Started(nth(1), 20)]))
    assert not receipt.refused
    return epoch
