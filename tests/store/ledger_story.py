"""Short words for stories of the ledger, and its one law: what it says is the sum of what lives."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from tests.store.store_story import ROOT, nth, setting
from tgpu.domain.charges import charged_gpu_milli, charged_of
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Exit, Group, JobSpec, Request, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Admission, Amounts, JobUse, Limits, OverQuota
from tgpu.domain.tenant import Tenant, Terms, is_within
from tgpu.store.lost import AttemptLost, AttemptReturned
from tgpu.store.port import Assigned, AttemptEnded, Batch, Started, Store, TaskClosed

LOW = PriorityClass.LOW
JULY, AUGUST = (int(datetime(2026, month, 1, tzinfo=UTC).timestamp()) * 1000 for month in (7, 8))
QUEUE = Terms(over_quota=OverQuota.QUEUE)


def gpu_job(gpus: float = 1, tenant_id: str = "lab", **fields: object) -> JobSpec:
    """With one CPU, and so many GPUs."""
    kind = {name: fields.pop(name) for name in ("gpu_type", "generic", "gpu_memory_mib") if name in fields}
    request = Request(1000, 0, 0, int(gpus * 1000), **kind)  # type: ignore[arg-type]
    return JobSpec("ann", (Group("true", request),), tenant_id=tenant_id, **fields)  # type: ignore[arg-type]


async def tenant(store: Store, tenant_id: str = "lab", **fields: object) -> None:
    await store.create_tenant(Tenant(tenant_id, **fields), ROOT, 1)  # type: ignore[arg-type]


async def limit(store: Store, tenant_id: str = "lab", **limits: int | None) -> None:
    """Changes some limits, and leaves the rest."""
    now = await seen(store, tenant_id)
    await store.update_tenant(tenant_id, setting(limits=replace(now.limits, **limits)), ROOT, 1)


async def seen(store: Store, tenant_id: str = "lab") -> Tenant:
    found = await store.tenant(tenant_id)
    assert found is not None
    return found


async def gpus(store: Store, tenant_id: str = "lab") -> tuple[int, int]:
    """(used, on the burst)"""
    found = await seen(store, tenant_id)
    return found.used.gpu_milli, found.burst.gpu_milli


async def counts(store: Store, tenant_id: str = "lab") -> tuple[int, int]:
    """(running, waiting)"""
    use = (await seen(store, tenant_id)).job_use
    return use.running, use.waiting


async def hours(store: Store, tenant_id: str = "lab") -> int:
    """In thousandths of a GPU times seconds."""
    return (await seen(store, tenant_id)).job_use.gpu_ms


async def submit(store: Store, *specs: JobSpec, at_ms: int = 1) -> list[int]:
    return (await store.submit(specs, at_ms)).job_ids


def given(
    job_id: int, admission: Admission = Admission.CHARGED, reserve_gpu_ms: int = 0, number: int = 1
) -> Assigned:
    return Assigned(nth(number, job_id), "n1", (), admission, reserve_gpu_ms)


async def start(store: Store, epoch: int, *assigned: Assigned, at_ms: int = 10) -> list[int]:
    """Which of them were refused, by job."""
    receipt = await store.commit(epoch, Batch(at_ms, assigned=list(assigned)))
    return [change.attempt_id.job_id for change in receipt.refused if isinstance(change, Assigned)]


async def run(store: Store, epoch: int, job_id: int, at_ms: int, number: int = 1) -> None:
    assert not (
        await store.commit(epoch, Batch(at_ms, started=[Started(nth(number, job_id), at_ms)]))
    ).refused


def ended(
    job_id: int, at_ms: int, happening: Happening = Happening.SUCCEEDED, number: int = 1
) -> AttemptEnded:
    return AttemptEnded(nth(number, job_id), Exit(Cause.EXITED, 0, ended_ms=at_ms), happening)


async def finish(
    store: Store, epoch: int, job_id: int, at_ms: int = 20, happening: Happening = Happening.SUCCEEDED
) -> None:
    batch = Batch(at_ms, ended=[ended(job_id, at_ms, happening)])
    assert not (await store.commit(epoch, batch)).refused


def lost(job_id: int, at_ms: int, number: int = 1) -> AttemptLost:
    return AttemptLost(nth(number, job_id), Exit(Cause.NODE_LOST, ended_ms=at_ms), requeue=True)


def returned(job_id: int, started_ms: int, reserve_gpu_ms: int = 0) -> AttemptReturned:
    return AttemptReturned(nth(1, job_id), started_ms, reserve_gpu_ms)


async def close(store: Store, epoch: int, job_id: int) -> None:
    closed = TaskClosed(TaskId(job_id, 0), Happening.CANCELLED, Cause.CANCELLED)
    assert not (await store.commit(epoch, Batch(30, closed=[closed]))).refused


def charged(task: TaskBrief, names: tuple[str, ...]) -> Amounts:
    request = task.request
    named = ((name, charged_of(request, name)) for name in names)
    return Amounts(
        request.cpu_milli,
        request.memory_mib,
        request.disk_mib,
        charged_gpu_milli(request),
        tuple(sorted((name, amount) for name, amount in named if amount)),
    )


async def check_exact(store: Store) -> None:
    """Every tenant's used, burst, running and waiting are the sums over the live tasks below it, and no limit
    is exceeded; for stories in which none was lowered."""
    tasks = (await store.load()).tasks
    for found in await store.tenants():
        names = tuple(name for name, _ in found.limits.named)
        used, burst, count = Amounts(), Amounts(), Counter[bool]()
        for task in tasks:
            if is_within(task.tenant_id, found.tenant_id):
                count[task.status.waits] += 1
                if task.burst:
                    burst = burst.plus(charged(task, names))
                elif not task.held:
                    used = used.plus(charged(task, names))
        assert (found.used, found.burst) == (used, burst), found.tenant_id
        use = found.job_use
        assert use == JobUse(count[False], count[True], use.gpu_ms, use.period_from_ms)


async def check_limits(store: Store) -> None:
    for found in await store.tenants():
        limits, use, most = found.limits, found.job_use, found.job_limits
        assert limits.exceeded_by(found.used) is None, found
        assert _half(limits).exceeded_by(found.burst) is None, found
        assert most.running is None or use.running <= most.running, found


def _half(limits: Limits) -> Limits:
    basic = (limits.cpu_milli, limits.memory_mib, limits.disk_mib, limits.gpu_milli)
    half = (None if most is None else most // 2 for most in basic)
    return Limits(*half, named=tuple((name, most // 2) for name, most in limits.named))
