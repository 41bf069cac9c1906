"""Tenants: created, changed and removed, and what the loop is told of it."""

import asyncio

import pytest

from tests.store.store_story import ROOT, a_job, a_tenant, end, running, setting
from tgpu.domain.access import EVERYWHERE, Member, Role
from tgpu.domain.lifecycle import Happening
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Amounts, JobLimits, JobUse, Limits, OverQuota, Period
from tgpu.domain.tenant import Budget, Tenant, Terms
from tgpu.store.access_port import AuditFilter, NameKeptError, TenantInUseError, Token
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Batch, StaleVersionError, Store, TenantExistsError, UnknownTenantError


async def test_the_default_tenant_is_there_without_limits(store: Store) -> None:
    assert await store.tenants() == [Tenant("default")]
    assert await store.tenant("other") is None


async def test_a_tenant_needs_its_parent_and_a_name_of_its_own(store: Store) -> None:
    with pytest.raises(UnknownTenantError, match="'lab'"):
        await store.create_tenant(Tenant("lab/ann"), ROOT, 1)
    given = Tenant("lab", 3, Limits(gpu_milli=5), used=Amounts(7), version=9)
    assert await store.create_tenant(given, ROOT, 1) == Tenant("lab", 3, Limits(gpu_milli=5))
    assert await store.create_tenant(Tenant("lab/ann"), ROOT, 1) == Tenant("lab/ann")
    with pytest.raises(TenantExistsError, match="'lab'"):
        await store.create_tenant(Tenant("lab"), ROOT, 1)
    assert [tenant.tenant_id for tenant in await store.tenants()] == ["default", "lab", "lab/ann"]


async def test_a_tenant_is_changed_only_by_who_has_seen_its_newest_version(store: Store) -> None:
    await store.create_tenant(Tenant("lab", 3), ROOT, 1)
    changed = await store.update_tenant("lab", setting(limits=Limits(cpu_milli=9)), ROOT, 1, if_version=1)
    assert changed == Tenant("lab", 3, Limits(cpu_milli=9), version=2) == await store.tenant("lab")
    with pytest.raises(StaleVersionError) as refusal:
        await store.update_tenant("lab", setting(weight=5), ROOT, 1, if_version=1)
    assert refusal.value.current == 2
    changed = await store.update_tenant("lab", setting(weight=5), ROOT, 1)
    assert changed == Tenant("lab", 5, Limits(cpu_milli=9), version=3)
    with pytest.raises(UnknownTenantError):
        await store.update_tenant("nobody", setting(weight=1), ROOT, 1)


async def told(store: Store, after_seq: int) -> list[Tenant]:
    return (await store.changes(after_seq)).tenants


async def test_the_world_has_every_tenant_s_weight_and_limits(store: Store) -> None:
    await store.create_tenant(Tenant("lab", 3, Limits(gpu_milli=5000)), ROOT, 1)
    await store.submit([a_job(tenant_id="lab")], 1)
    assert (await store.load()).tenants == [Tenant("default"), Tenant("lab", 3, Limits(gpu_milli=5000))]


async def test_changes_tell_of_tenants_that_are_new_or_were_changed(store: Store) -> None:
    await store.submit([a_job()], 1)
    seq = (await store.load()).seq
    assert await told(store, seq) == []
    await store.create_tenant(Tenant("lab", 3), ROOT, 1)
    await store.create_tenant(Tenant("lab/ann"), ROOT, 1)
    assert await told(store, seq) == [Tenant("lab", 3), Tenant("lab/ann")]
    await store.submit([a_job(tenant_id="lab/ann")], 2)
    changes = await store.changes(seq)
    assert changes.tenants == [Tenant("lab", 3), Tenant("lab/ann")]
    assert await told(store, changes.seq) == []
    await store.update_tenant("lab", setting(weight=5), ROOT, 1)
    await store.update_tenant("default", setting(limits=Limits(cpu_milli=9)), ROOT, 1)
    assert await told(store, changes.seq) == [
        Tenant("default", limits=Limits(cpu_milli=9), version=2),
        Tenant("lab", 5, version=2),
    ]


async def test_what_a_tenant_uses_does_not_change_it(store: Store) -> None:
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    epoch = await running(store, a_job(tenant_id="lab"))
    seq = await store.last_seq()
    await store.submit([a_job(tenant_id="lab")], 2)
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    assert await told(store, seq) == []


async def test_a_refused_change_of_a_tenant_is_no_change(store: Store) -> None:
    await store.submit([a_job()], 1)
    with pytest.raises(StaleVersionError):
        await store.update_tenant("default", setting(weight=5), ROOT, 1, if_version=7)
    with pytest.raises(TenantExistsError):
        await store.create_tenant(Tenant("default", 9), ROOT, 1)
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
        await store.create_tenant(Tenant(name), ROOT, 1)
        for weight in range(2, 12):
            await store.submit([a_job(tenant_id=name)], 1)
            await store.update_tenant(name, setting(weight=weight), ROOT, 1)

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
    await store.create_tenant(Tenant("lab"), ROOT, 1)
    await asyncio.sleep(0)
    assert len(wakes) == 1
    await store.update_tenant("lab", setting(weight=2), ROOT, 1)
    await asyncio.sleep(0)
    assert len(wakes) == 2
    with pytest.raises(UnknownTenantError):
        await store.update_tenant("nobody", setting(weight=2), ROOT, 1)
    await asyncio.sleep(0)
    assert len(wakes) == 2


WHOLE = Tenant(
    "lab",
    7,
    Limits(1, 2, 3, 4, (("generic:licence", 0), ("gpu:a100", 2000))),
    job_limits=JobLimits(5, 6, 2**50, Period.WEEK),
    job_use=JobUse(period_from_ms=-3 * 86_400_000),
    terms=Terms(
        tier="gold",
        default_class=PriorityClass.LOW,
        classes=frozenset({PriorityClass.LOW, PriorityClass.DEFAULT}),
        default_limit_s=60,
        most_limit_s=3600,
        over_quota=OverQuota.QUEUE,
        may_burst=False,
        archived=True,
    ),
    budget=Budget(2**51, Period.DAY),
)
"""The week that 1970 began in began three days earlier."""


async def test_a_tenant_keeps_everything_that_is_said_of_it(store: Store) -> None:
    assert await store.create_tenant(WHOLE, ROOT, 1) == WHOLE
    assert await store.tenant("lab") == WHOLE
    assert await store.tenants() == [Tenant("default"), WHOLE]
    assert (await store.load()).tenants == [Tenant("default"), WHOLE]
    bare = await store.update_tenant("lab", lambda _: Tenant("other", 9, version=99), ROOT, 1)
    by_the_month = JobUse(period_from_ms=1)
    assert bare == Tenant("lab", 9, version=2, job_use=by_the_month) == await store.tenant("lab")
    again = await store.update_tenant("lab", lambda _: WHOLE, ROOT, 1)
    assert (again.limits, again.job_limits, again.terms, again.budget) == (
        WHOLE.limits,
        WHOLE.job_limits,
        WHOLE.terms,
        WHOLE.budget,
    )
    assert await store.tenant("lab") == again
    assert (await store.changes(0)).tenants == [Tenant("default"), again]


async def test_no_classes_at_all_are_not_all_of_them(store: Store) -> None:
    await a_tenant(store, "lab", terms=Terms(classes=frozenset()))
    tenant = await store.tenant("lab")
    assert tenant is not None
    assert tenant.terms.classes == frozenset()


async def test_a_change_that_changes_nothing_has_no_version(store: Store) -> None:
    await store.create_tenant(WHOLE, ROOT, 1)
    assert await store.update_tenant("lab", lambda tenant: tenant, ROOT, 2) == WHOLE
    assert await store.update_tenant("lab", setting(weight=7), ROOT, 2, if_version=1) == WHOLE


class NoWeightError(Exception):
    pass


async def test_a_change_that_cannot_be_is_told_as_it_is_and_changes_nothing(store: Store) -> None:
    def refuse(tenant: Tenant) -> Tenant:
        raise NoWeightError(tenant.weight)

    await a_tenant(store, "lab", 3)
    with pytest.raises(NoWeightError, match="3"):
        await store.update_tenant("lab", refuse, ROOT, 2)
    assert await store.tenant("lab") == Tenant("lab", 3)


async def test_changes_at_once_all_count(store: Store) -> None:
    """Each is given what the one before it has left."""
    await a_tenant(store, "lab", 1)
    await asyncio.gather(
        *(
            store.update_tenant("lab", lambda tenant: setting(weight=tenant.weight + 1)(tenant), ROOT, 1)
            for _ in range(20)
        )
    )
    assert await store.tenant("lab") == Tenant("lab", 21, version=21)


async def test_another_period_of_gpu_hours_is_counted_from_now_on(store: Store) -> None:
    day = 86_400_000
    now_ms = 40 * day + 5
    await store.create_tenant(Tenant("lab"), ROOT, now_ms)
    tenant = await store.tenant("lab")
    assert tenant is not None
    assert tenant.job_use.period_from_ms == 31 * day
    changed = await store.update_tenant(
        "lab", setting(job_limits=JobLimits(gpu_ms=9, period=Period.DAY)), ROOT, now_ms
    )
    assert changed.job_use == JobUse(period_from_ms=now_ms)
    changed = await store.update_tenant(
        "lab", setting(job_limits=JobLimits(gpu_ms=8, period=Period.DAY)), ROOT, now_ms + day
    )
    assert changed.job_use == JobUse(period_from_ms=41 * day)
    assert await store.tenant("lab") == changed


async def test_a_tenant_with_live_jobs_or_tenants_below_it_is_not_removed(store: Store) -> None:
    await a_tenant(store, "lab")
    await a_tenant(store, "lab/ann")
    epoch = await running(store, a_job(tenant_id="lab/ann"))
    with pytest.raises(TenantInUseError, match=r"lab has 1 below it \(lab/ann first\): remove or move"):
        await store.remove_tenant("lab", ROOT, 2)
    with pytest.raises(TenantInUseError, match="lab/ann has 1 job that has not ended: archive it"):
        await store.remove_tenant("lab/ann", ROOT, 2)
    with pytest.raises(TenantInUseError, match="default is always there"):
        await store.remove_tenant("default", ROOT, 2)
    with pytest.raises(StaleVersionError):
        await store.remove_tenant("lab/ann", ROOT, 2, if_version=2)
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    assert await store.remove_tenant("lab/ann", ROOT, 3, if_version=1)
    assert not await store.remove_tenant("lab/ann", ROOT, 3)
    assert [tenant.tenant_id for tenant in await store.tenants()] == ["default", "lab"]
    (job,) = await store.jobs(JobFilter(tenant_id="lab/ann"), Paging())
    assert job.spec.tenant_id == "lab/ann"
    with pytest.raises(UnknownTenantError):
        await store.submit([a_job(tenant_id="lab/ann")], 4)


async def test_nobody_gets_unawares_a_name_under_which_ended_jobs_are_kept(store: Store) -> None:
    for name in ("lab", "lab/ann", "org"):
        await a_tenant(store, name)
    epoch = await running(store, a_job(tenant_id="lab/ann"))
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    for at_ms, name in ((31, "lab/ann"), (32, "lab")):
        await store.remove_tenant(name, ROOT, at_ms)
    with pytest.raises(NameKeptError) as refusal:
        await store.create_tenant(Tenant("lab"), ROOT, 40)
    assert (refusal.value.tenant_id, refusal.value.removed_ms) == ("lab/ann", 31), "its members would see it"
    with pytest.raises(NameKeptError):
        await store.move_tenant("org", "lab", ROOT, 41)
    assert await store.create_tenant(Tenant("annex"), ROOT, 42) == Tenant("annex")
    assert await store.create_tenant(Tenant("lab"), ROOT, 43, take_over=True) == Tenant("lab")
    await store.create_tenant(Tenant("new"), ROOT, 44, take_over=True)
    lines = await store.audit_entries(AuditFilter(action="tenant.create", from_ms=42))
    assert [(line.target, "took_over" in line.after) for line in lines] == [
        ("new", False), ("lab", True), ("annex", False),
    ]  # fmt: skip
    assert [tenant.tenant_id for tenant in await store.tenants()] == [
        "annex", "default", "lab", "new", "org",
    ]  # fmt: skip


async def test_a_name_that_a_tenant_was_moved_from_is_free(store: Store) -> None:
    await a_tenant(store, "lab")
    epoch = await running(store, a_job(tenant_id="lab"))
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    await store.move_tenant("lab", "org", ROOT, 31)
    assert await store.create_tenant(Tenant("lab"), ROOT, 32) == Tenant("lab")


async def test_what_was_good_in_a_removed_tenant_is_good_nowhere(store: Store) -> None:
    await a_tenant(store, "lab", limits=Limits(named=(("gpu:a100", 1000),)))
    await store.set_member(Member("ann", "lab", Role.USER), ROOT, 2)
    await store.set_member(Member("ann", EVERYWHERE, Role.VIEWER), ROOT, 2)
    for digest, tenant_id in (("d1", "lab"), ("d2", "default"), ("d3", None)):
        await store.create_token(Token(0, "ann", "user", digest, "", 1, None, tenant_id=tenant_id), ROOT, 2)
    assert await store.remove_tenant("lab", ROOT, 3)
    assert [member.tenant_id for member in await store.members()] == [EVERYWHERE]
    assert [token.revoked for token in await store.tokens()] == [True, False, False]
    again = await a_tenant(store, "lab")
    assert again == Tenant("lab") == await store.tenant("lab")


async def test_the_loop_is_told_once_that_a_tenant_is_gone(store: Store) -> None:
    await a_tenant(store, "lab")
    await store.submit([a_job()], 1)
    seq = (await store.load()).seq
    assert not (await store.changes(seq)).rearranged
    await store.remove_tenant("lab", ROOT, 2)
    assert (await store.changes(seq)).rearranged
    assert (await store.changes(seq)).rearranged
    seq = (await store.load()).seq
    assert not (await store.changes(seq)).rearranged
    await store.submit([a_job()], 3)
    changes = await store.changes(seq)
    assert (changes.rearranged, [brief.task_id.job_id for brief in changes.submitted]) == (False, [2])
