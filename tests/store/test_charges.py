"""What a submission is charged for, and when that is given back."""

import asyncio

import pytest

from tests.postgres_server import CLUSTER
from tests.store.store_story import ROOT, a_job, assign, end, running, setting
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.quota import Amounts, JobUse, Limits
from tgpu.domain.tenant import Tenant
from tgpu.store.port import Batch, Store, TaskClosed
from tgpu.store.quota_port import QuotaExceededError
from tgpu.store.refusals import StoreError

PER_JOB = Amounts(500, 64, 8, 1000)


def times(count: int) -> Amounts:
    return Amounts(500 * count, 64 * count, 8 * count, 1000 * count)


async def used(store: Store, tenant_id: str) -> Amounts:
    tenant = await store.tenant(tenant_id)
    assert tenant is not None
    return tenant.used


async def test_a_submission_is_charged_from_root_to_leaf_and_leaves_the_version(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    await store.create_tenant(Tenant("lab/ann"), ROOT, 1)
    await store.submit([a_job(tenant_id="lab/ann"), a_job(tenant_id="lab/ann"), a_job(tenant_id="lab")], 1)
    assert await store.tenant("lab") == Tenant("lab", used=times(3), job_use=JobUse(waiting=3))
    assert await store.tenant("lab/ann") == Tenant("lab/ann", used=times(2), job_use=JobUse(waiting=2))
    assert await used(store, "default") == Amounts()


async def test_a_refusal_names_the_tenant_its_numbers_and_charges_nobody(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    await store.create_tenant(Tenant("lab/ann", limits=Limits(gpu_milli=2500)), ROOT, 1)
    await store.submit([a_job(tenant_id="lab/ann")], 1)
    with pytest.raises(QuotaExceededError) as refusal:
        await store.submit([a_job(), a_job(tenant_id="lab/ann"), a_job(tenant_id="lab/ann")], 2)
    assert refusal.value.tenant == Tenant(
        "lab/ann", limits=Limits(gpu_milli=2500), used=PER_JOB, job_use=JobUse(waiting=1)
    )
    assert (refusal.value.dimension, refusal.value.asked) == ("gpu_milli", 2000)
    assert await used(store, "lab") == PER_JOB
    assert await used(store, "default") == Amounts()
    assert await store.last_seq() == 1


async def test_a_limit_may_be_reached_exactly(store: Store) -> None:
    await store.create_tenant(Tenant("lab", limits=Limits(1000, 128, 16, 2000)), ROOT, 1)
    await store.submit([a_job(tenant_id="lab"), a_job(tenant_id="lab")], 1)
    with pytest.raises(QuotaExceededError, match="cpu_milli"):
        await store.submit([a_job(tenant_id="lab")], 1)


async def test_a_lowered_limit_stops_admissions_and_kills_nothing(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    await store.submit([a_job(tenant_id="lab")], 1)
    await store.update_tenant("lab", setting(limits=Limits(gpu_milli=10)), ROOT, 1)
    assert await used(store, "lab") == PER_JOB
    with pytest.raises(QuotaExceededError):
        await store.submit([a_job(tenant_id="lab")], 2)


async def test_sixty_four_submissions_at_once_fill_a_quota_exactly(store: Store) -> None:
    await store.create_tenant(Tenant("lab", limits=Limits(gpu_milli=10_000)), ROOT, 1)
    answers = await asyncio.gather(
        *(store.submit([a_job(tenant_id="lab")], 1) for _ in range(64)), return_exceptions=True
    )
    assert sum(isinstance(answer, QuotaExceededError) for answer in answers) == 54
    assert await used(store, "lab") == times(10)
    taken = sorted(answer.job_ids[0] for answer in answers if not isinstance(answer, BaseException))
    assert taken == list(range(1, 11))


async def test_quota_is_given_back_once_when_a_task_is_over(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    epoch = await running(store, a_job(tenant_id="lab"))
    await store.commit(epoch, Batch(30, ended=[end(Happening.REQUEUED, Cause.NODE_LOST)]))
    await store.commit(epoch, Batch(31, assigned=[assign(1, 2)]))
    await store.submit([a_job(tenant_id="lab")], 32)
    assert await used(store, "lab") == times(2)
    done = end(Happening.SUCCEEDED, number=2)
    assert (await store.commit(epoch, Batch(33, ended=[done, done]))).refused == [done]
    assert await used(store, "lab") == PER_JOB
    closed = TaskClosed(TaskId(2, 0), Happening.CANCELLED, Cause.CANCELLED)
    assert (await store.commit(epoch, Batch(34, closed=[closed, closed]))).refused == [closed]
    assert await used(store, "lab") == Amounts()


async def test_huge_quantities_stay_exact(store: Store) -> None:
    huge = JobSpec("ann", (Group("true", Request(memory_mib=10**12, disk_mib=10**12)),))
    await store.submit([huge] * 1001, 1)
    assert await used(store, "default") == Amounts(1001 * 1000, 1001 * 10**12, 1001 * 10**12, 0)


async def test_gpu_memory_alone_charges_a_whole_gpu(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    by_memory = JobSpec("ann", (Group("true", Request(gpu_memory_mib=4096)),), tenant_id="lab")
    by_both = JobSpec("ann", (Group("true", Request(gpu_milli=250, gpu_memory_mib=4096)),), tenant_id="lab")
    await store.submit([by_memory, by_both], 1)
    assert await used(store, "lab") == Amounts(cpu_milli=2000, gpu_milli=1250)


async def test_every_refusal_of_the_store_is_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError):
        await store.submit([a_job(tenant_id="x")], 1)
    assert store.cluster_id in {"c", CLUSTER}
