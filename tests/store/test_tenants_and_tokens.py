import asyncio
from dataclasses import replace

import pytest

from tests.store.store_story import a_job, assign, end, running
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.tenant import Amounts, Limits, Tenant
from tgpu.store.port import (
    Batch,
    QuotaExceededError,
    StaleVersionError,
    Store,
    TaskClosed,
    TenantExistsError,
    Token,
    UnknownTenantError,
)
from tgpu.store.refusals import StoreError

PER_JOB = Amounts(500, 64, 8, 1000)


def times(count: int) -> Amounts:
    return Amounts(500 * count, 64 * count, 8 * count, 1000 * count)


async def used(store: Store, tenant_id: str) -> Amounts:
    tenant = await store.tenant(tenant_id)
    assert tenant is not None
    return tenant.used


async def test_the_default_tenant_is_there_without_limits(store: Store) -> None:
    assert await store.tenants() == [Tenant("default")]
    assert await store.tenant("other") is None


async def test_a_tenant_needs_its_parent_and_a_name_of_its_own(store: Store) -> None:
    with pytest.raises(UnknownTenantError, match="'lab'"):
        await store.create_tenant(Tenant("lab/ann"))
    given = Tenant("lab", 3, Limits(gpu_milli=5), used=Amounts(7), version=9)
    assert await store.create_tenant(given) == Tenant("lab", 3, Limits(gpu_milli=5))
    assert await store.create_tenant(Tenant("lab/ann")) == Tenant("lab/ann")
    with pytest.raises(TenantExistsError, match="'lab'"):
        await store.create_tenant(Tenant("lab"))
    assert [tenant.tenant_id for tenant in await store.tenants()] == ["default", "lab", "lab/ann"]


async def test_a_tenant_is_changed_only_by_who_has_seen_its_newest_version(store: Store) -> None:
    await store.create_tenant(Tenant("lab", 3))
    changed = await store.update_tenant("lab", limits=Limits(cpu_milli=9), if_version=1)
    assert changed == Tenant("lab", 3, Limits(cpu_milli=9), version=2) == await store.tenant("lab")
    with pytest.raises(StaleVersionError) as refusal:
        await store.update_tenant("lab", weight=5, if_version=1)
    assert refusal.value.current == 2
    assert await store.update_tenant("lab", weight=5) == Tenant("lab", 5, Limits(cpu_milli=9), version=3)
    with pytest.raises(UnknownTenantError):
        await store.update_tenant("nobody", weight=1)


async def test_a_submission_is_charged_from_root_to_leaf_and_leaves_the_version(store: Store) -> None:
    await store.create_tenant(Tenant("lab"))
    await store.create_tenant(Tenant("lab/ann"))
    await store.submit([a_job(tenant_id="lab/ann"), a_job(tenant_id="lab/ann"), a_job(tenant_id="lab")], 1)
    assert await store.tenant("lab") == Tenant("lab", used=times(3))
    assert await store.tenant("lab/ann") == Tenant("lab/ann", used=times(2))
    assert await used(store, "default") == Amounts()


async def test_a_refusal_names_the_tenant_its_numbers_and_charges_nobody(store: Store) -> None:
    await store.create_tenant(Tenant("lab"))
    await store.create_tenant(Tenant("lab/ann", limits=Limits(gpu_milli=2500)))
    await store.submit([a_job(tenant_id="lab/ann")], 1)
    with pytest.raises(QuotaExceededError) as refusal:
        await store.submit([a_job(), a_job(tenant_id="lab/ann"), a_job(tenant_id="lab/ann")], 2)
    assert refusal.value.tenant == Tenant("lab/ann", limits=Limits(gpu_milli=2500), used=PER_JOB)
    assert (refusal.value.dimension, refusal.value.asked) == ("gpu_milli", times(2))
    assert await used(store, "lab") == PER_JOB
    assert await used(store, "default") == Amounts()
    assert await store.last_seq() == 1


async def test_a_limit_may_be_reached_exactly(store: Store) -> None:
    await store.create_tenant(Tenant("lab", limits=Limits(*(2 * amount for amount in (500, 64, 8, 1000)))))
    await store.submit([a_job(tenant_id="lab"), a_job(tenant_id="lab")], 1)
    with pytest.raises(QuotaExceededError, match="cpu_milli"):
        await store.submit([a_job(tenant_id="lab")], 1)


async def test_a_lowered_limit_stops_admissions_and_kills_nothing(store: Store) -> None:
    await store.create_tenant(Tenant("lab"))
    await store.submit([a_job(tenant_id="lab")], 1)
    await store.update_tenant("lab", limits=Limits(gpu_milli=10))
    assert await used(store, "lab") == PER_JOB
    with pytest.raises(QuotaExceededError):
        await store.submit([a_job(tenant_id="lab")], 2)


async def test_sixty_four_submissions_at_once_fill_a_quota_exactly(store: Store) -> None:
    await store.create_tenant(Tenant("lab", limits=Limits(gpu_milli=10_000)))
    answers = await asyncio.gather(
        *(store.submit([a_job(tenant_id="lab")], 1) for _ in range(64)), return_exceptions=True
    )
    assert sum(isinstance(answer, QuotaExceededError) for answer in answers) == 54
    assert await used(store, "lab") == times(10)
    taken = sorted(answer.job_ids[0] for answer in answers if not isinstance(answer, BaseException))
    assert taken == list(range(1, 11))


async def test_quota_is_given_back_once_when_a_task_is_over(store: Store) -> None:
    await store.create_tenant(Tenant("lab"))
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


async def told(store: Store, after_seq: int) -> list[Tenant]:
    return (await store.changes(after_seq)).tenants


async def test_the_world_has_every_tenant_s_weight_and_limits(store: Store) -> None:
    await store.create_tenant(Tenant("lab", 3, Limits(gpu_milli=5000)))
    await store.submit([a_job(tenant_id="lab")], 1)
    assert (await store.load()).tenants == [Tenant("default"), Tenant("lab", 3, Limits(gpu_milli=5000))]


async def test_changes_tell_of_tenants_that_are_new_or_were_changed(store: Store) -> None:
    await store.submit([a_job()], 1)
    seq = (await store.load()).seq
    assert await told(store, seq) == []
    await store.create_tenant(Tenant("lab", 3))
    await store.create_tenant(Tenant("lab/ann"))
    assert await told(store, seq) == [Tenant("lab", 3), Tenant("lab/ann")]
    await store.submit([a_job(tenant_id="lab/ann")], 2)
    changes = await store.changes(seq)
    assert changes.tenants == [Tenant("lab", 3), Tenant("lab/ann")]
    assert await told(store, changes.seq) == []
    await store.update_tenant("lab", weight=5)
    await store.update_tenant("default", limits=Limits(cpu_milli=9))
    assert await told(store, changes.seq) == [
        Tenant("default", limits=Limits(cpu_milli=9), version=2),
        Tenant("lab", 5, version=2),
    ]


async def test_what_a_tenant_uses_does_not_change_it(store: Store) -> None:
    await store.create_tenant(Tenant("lab"))
    epoch = await running(store, a_job(tenant_id="lab"))
    seq = await store.last_seq()
    await store.submit([a_job(tenant_id="lab")], 2)
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    assert await told(store, seq) == []


async def test_a_refused_change_of_a_tenant_is_no_change(store: Store) -> None:
    await store.submit([a_job()], 1)
    with pytest.raises(StaleVersionError):
        await store.update_tenant("default", weight=5, if_version=7)
    with pytest.raises(TenantExistsError):
        await store.create_tenant(Tenant("default", 9))
    assert await told(store, 1) == []


async def test_no_change_of_a_tenant_is_missed_between_submissions(store: Store) -> None:
    """Whoever looks again and again, each time from where the last look ended, knows all in the end."""
    seen: dict[str, Tenant] = {}
    seq, going_on = 0, True

    async def look() -> None:
        nonlocal seq
        changes = await store.changes(seq, limit=3)
        seq = changes.seq
        seen.update({tenant.tenant_id: tenant for tenant in changes.tenants})
        for brief in changes.submitted:
            assert brief.tenant_id in seen, "a task came before its tenant"

    async def keep_looking() -> None:
        while going_on:
            await look()

    async def work(name: str) -> None:
        await store.create_tenant(Tenant(name))
        for weight in range(2, 12):
            await store.submit([a_job(tenant_id=name)], 1)
            await store.update_tenant(name, weight=weight)

    looking = asyncio.create_task(keep_looking())
    await asyncio.gather(*(work(f"lab{n}") for n in range(5)))
    going_on = False
    await looking
    while seq < await store.last_seq():
        await look()
    await look()
    assert {name: tenant.weight for name, tenant in seen.items()} == {
        "default": 1,
        **{f"lab{n}": 11 for n in range(5)},
    }


async def test_whoever_subscribed_is_woken_when_a_tenant_changes(store: Store) -> None:
    wakes: list[int] = []
    store.subscribe(lambda: wakes.append(1))
    await store.create_tenant(Tenant("lab"))
    await asyncio.sleep(0)
    assert len(wakes) == 1
    await store.update_tenant("lab", weight=2)
    await asyncio.sleep(0)
    assert len(wakes) == 2
    with pytest.raises(UnknownTenantError):
        await store.update_tenant("nobody", weight=2)
    await asyncio.sleep(0)
    assert len(wakes) == 2


async def test_gpu_memory_alone_charges_no_gpus(store: Store) -> None:
    await store.create_tenant(Tenant("lab", limits=Limits(gpu_milli=0)))
    by_memory = JobSpec("ann", (Group("true", Request(gpu_memory_mib=4096)),), tenant_id="lab")
    await store.submit([by_memory], 1)
    assert await used(store, "lab") == Amounts(cpu_milli=1000)


async def test_tokens_are_numbered_found_by_digest_and_revoked_once(store: Store) -> None:
    token = Token(0, "ann", "user", "d1", "laptop", 5, None)
    assert await store.create_token(token) == replace(token, token_id=1)
    other = await store.create_token(Token(0, "bob", "admin", "d2", "", 6, 99))
    assert other.token_id == 2
    assert await store.token_by_digest("d2") == other
    assert await store.token_by_digest("d3") is None
    assert await store.revoke_token(1)
    assert not await store.revoke_token(1)
    assert not await store.revoke_token(7)
    assert await store.tokens() == [replace(token, token_id=1, revoked=True), other]


async def test_every_refusal_of_the_store_is_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError):
        await store.submit([a_job(tenant_id="x")], 1)
    assert store.cluster_id == "c"
