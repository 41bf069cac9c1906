"""Tenants that are given another name and other parents, with everything that is theirs."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.store_story import ROOT, a_job, a_tenant, assign, end, nth, running, setting
from tgpu.domain.access import Member, Role
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Admission, Amounts, JobUse, Limits, OverQuota
from tgpu.domain.tenant import Tenant, Terms
from tgpu.store.access_port import MisplacedTenantError, TenantInUseError, Token
from tgpu.store.cluster_port import WindowKind, WindowRow
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import (
    Batch,
    StaleVersionError,
    Started,
    Store,
    TaskClosed,
    TenantExistsError,
    UnknownTenantError,
)
from tgpu.store.sql import renames
from tgpu.store.sqlite import SqliteStore
from tgpu.store.usage_port import GroupBy, ReportFilter

ONE = Amounts(500, 64, 8, 1000)


async def names(store: Store) -> list[str]:
    return [tenant.tenant_id for tenant in await store.tenants()]


async def the(store: Store, tenant_id: str) -> Tenant:
    tenant = await store.tenant(tenant_id)
    assert tenant is not None
    return tenant


async def check_ledger(store: Store) -> None:
    assert await store.recount(await store.claim()) == []


def a_reservation(tenant_id: str | None) -> WindowRow:
    return WindowRow(0, WindowKind.RESERVATION, "w", ("n1",), (), 1, 2, "ann", 1, tenant_id)


async def test_everything_of_a_tenant_goes_with_it(store: Store) -> None:
    for name in ("org", "lab", "lab/ann", "lab2"):
        await a_tenant(store, name, 3 if name == "lab" else 1)
    epoch = await running(store, a_job(tenant_id="lab/ann"))
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    await store.submit([a_job(tenant_id="lab"), a_job(tenant_id="lab2")], 31)
    for name in ("lab", "lab/ann", "lab2"):
        await store.set_member(Member("ann", name, Role.USER), ROOT, 2)
        await store.create_token(Token(0, "ann", "user", name, "", 1, None, tenant_id=name), ROOT, 2)
        await store.create_window(a_reservation(name))
    moved = await store.move_tenant("lab", "org/lab", ROOT, 40, if_version=1)
    assert moved == replace(await the(store, "org/lab"), version=2, weight=3)
    assert await names(store) == ["default", "lab2", "org", "org/lab", "org/lab/ann"]
    jobs = await store.jobs(JobFilter(), Paging(oldest_first=True))
    assert [job.spec.tenant_id for job in jobs] == ["org/lab/ann", "org/lab", "lab2"]
    assert [job.job_id for job in await store.jobs(JobFilter(tenant_id="org/lab/ann"), Paging())] == [1]
    assert [brief.tenant_id for brief in (await store.load()).tasks] == ["org/lab", "lab2"]
    assert [spent.tenant_id for spent in await store.usage(1)] == ["org/lab/ann"]
    below = ReportFilter(tenants=("org",))
    assert [row.keys for row in await store.report(below, (GroupBy.TENANT,), 50)] == [("org/lab/ann",)]
    there = ["lab2", "org/lab", "org/lab/ann"]
    assert [member.tenant_id for member in await store.members()] == there
    assert sorted(str(token.tenant_id) for token in await store.tokens()) == there
    assert sorted(str(window.tenant_id) for window in await store.windows()) == there
    with pytest.raises(UnknownTenantError):
        await store.submit([a_job(tenant_id="lab")], 41)
    await store.submit([a_job(tenant_id="org/lab/ann")], 42)
    await check_ledger(store)


async def test_what_lives_is_charged_to_the_new_parents_whether_or_not_they_have_room(store: Store) -> None:
    for name in ("old", "old/mid", "old/mid/lab", "new"):
        await a_tenant(store, name)
    await store.update_tenant("new", setting(limits=Limits(gpu_milli=500)), ROOT, 2)
    epoch = await running(store, a_job(tenant_id="old/mid/lab"))
    await store.submit([a_job(tenant_id="old/mid/lab"), a_job(tenant_id="old")], 21)
    await store.move_tenant("old/mid/lab", "new/lab", ROOT, 22)
    assert (await the(store, "old")).used == ONE
    assert (await the(store, "old")).job_use == JobUse(waiting=1)
    assert (await the(store, "old/mid")).used == Amounts()
    assert (await the(store, "old/mid")).job_use == JobUse()
    for name in ("new", "new/lab"):
        assert (await the(store, name)).used == ONE.plus(ONE)
        assert (await the(store, name)).job_use == JobUse(running=1, waiting=1)
    await store.commit(epoch, Batch(30, ended=[end(Happening.SUCCEEDED)]))
    assert (await the(store, "new")).used == ONE
    assert (await the(store, "new")).job_use.running == 0
    await check_ledger(store)


async def test_a_new_name_in_the_same_place_charges_nobody(store: Store) -> None:
    for name in ("org", "org/lab", "org/lab/ann"):
        await a_tenant(store, name)
    await store.submit([a_job(tenant_id="org/lab/ann")], 1)
    before = await the(store, "org")
    await store.move_tenant("org/lab", "org/team", ROOT, 2)
    assert await the(store, "org") == before
    assert await names(store) == ["default", "org", "org/team", "org/team/ann"]
    assert (await the(store, "org/team/ann")).used == ONE
    await store.move_tenant("org/team/ann", "ann", ROOT, 3)
    assert (await the(store, "org")).used == Amounts()
    assert (await the(store, "ann")).used == ONE
    await check_ledger(store)


def by_type(tenant_id: str, gpu_type: str | None, licences: int = 0) -> JobSpec:
    generic = (("licence", licences),) if licences else ()
    request = Request(gpu_milli=1000, gpu_type=gpu_type, generic=generic)
    return JobSpec("ann", (Group("true", request),), tenant_id=tenant_id)


async def barred(store: Store) -> list[tuple[str, ...]]:
    return [brief.request.gpu_types_barred for brief in (await store.load()).tasks]


NAMED = Limits(named=(("generic:licence", 9), ("gpu:a100", 5000)))


async def test_a_new_named_limit_counts_what_lives_and_keeps_others_from_the_model(store: Store) -> None:
    await a_tenant(store, "lab")
    await a_tenant(store, "lab/ann")
    await store.submit([by_type("lab/ann", "NVIDIA A100", 2), by_type("lab", None), a_job(gpu_milli=0)], 1)
    seq = (await store.load()).seq
    limited = await store.update_tenant("lab", setting(limits=NAMED), ROOT, 2)
    assert limited.used.named == (("generic:licence", 2), ("gpu:a100", 1000))
    assert await the(store, "lab") == limited
    assert await barred(store) == [(), ("a100",), ()]
    assert (await store.changes(seq)).rearranged
    await store.submit([by_type("lab", "a100"), by_type("lab", "T4", 1)], 3)
    assert (await the(store, "lab")).used.named == (("generic:licence", 3), ("gpu:a100", 2000))
    assert await barred(store) == [(), ("a100",), (), (), ("a100",)]
    await check_ledger(store)
    lowered = Limits(named=(("gpu:a100", 0),))
    assert (await store.update_tenant("lab", setting(limits=lowered), ROOT, 4)).used.named == (
        ("gpu:a100", 2000),
    )
    await store.update_tenant("lab", setting(limits=Limits()), ROOT, 5)
    assert (await the(store, "lab")).used.named == ()
    assert await barred(store) == [(), (), (), (), ()]
    await check_ledger(store)


async def test_named_limits_move_with_their_tenant_and_those_of_the_new_parents_hold(store: Store) -> None:
    await a_tenant(store, "a", limits=NAMED)
    await a_tenant(store, "a/lab", limits=Limits(named=(("gpu:a100", 4000),)))
    await a_tenant(store, "b", limits=Limits(named=(("gpu:t4", 1000),)))
    await store.submit([by_type("a/lab", "a100", 2), by_type("a/lab", None)], 1)
    await store.move_tenant("a/lab", "b/lab", ROOT, 2)
    assert (await the(store, "a")).used == Amounts()
    assert (await the(store, "b")).used == Amounts(2000, 0, 0, 2000)
    assert (await the(store, "b/lab")).used.named == (("gpu:a100", 1000),)
    assert (await the(store, "b/lab")).limits == Limits(named=(("gpu:a100", 4000),))
    assert await barred(store) == [("t4",), ("a100", "t4")]
    await store.submit([by_type("b/lab", "T4")], 3)
    assert (await the(store, "b")).used.named == (("gpu:t4", 1000),)
    await store.move_tenant("b/lab", "lab", ROOT, 4)
    assert (await the(store, "b")).used == Amounts()
    assert await barred(store) == [(), ("a100",), ("a100",)]
    await check_ledger(store)


async def test_what_runs_on_the_burst_or_is_held_stays_so(store: Store) -> None:
    await a_tenant(store, "old")
    await a_tenant(store, "old/lab", limits=Limits(gpu_milli=2000))
    await a_tenant(store, "new", limits=Limits(named=(("gpu:a100", 1000),)))
    low = {"priority_class": PriorityClass.LOW}
    charged = by_type("old/lab", "a100")
    epoch = await store.claim()
    assert (await store.submit([charged, charged], 1)).held == frozenset()
    burst, held = (replace(by_type("old/lab", "a100"), **low) for _ in range(2))  # type: ignore[arg-type]
    assert (await store.submit([burst], 2)).held == {3}
    on_burst = replace(assign(3), admission=Admission.BURST)
    assert not (await store.commit(epoch, Batch(3, assigned=[on_burst]))).refused
    await store.update_tenant("old/lab", setting(limits=Limits(gpu_milli=4000)), ROOT, 4)
    await store.update_tenant("old/lab", setting(terms=Terms(over_quota=OverQuota.QUEUE)), ROOT, 4)
    assert (await store.submit([held], 5)).held == {4}
    named = Limits(gpu_milli=4000, named=(("gpu:a100", 9000),))
    limited = await store.update_tenant("old/lab", setting(limits=named), ROOT, 6)
    assert (limited.used.named, limited.burst.named) == ((("gpu:a100", 2000),), (("gpu:a100", 1000),))
    await store.move_tenant("old/lab", "new/lab", ROOT, 7)
    new = await the(store, "new")
    assert (new.used.gpu_milli, new.used.named) == (2000, (("gpu:a100", 2000),))
    assert (new.burst.gpu_milli, new.burst.named) == (1000, (("gpu:a100", 1000),))
    assert new.job_use == JobUse(running=1, waiting=3)
    old = await the(store, "old")
    assert (old.used, old.burst, old.job_use) == (Amounts(), Amounts(), JobUse())
    assert [(brief.held, brief.burst) for brief in (await store.load()).tasks] == [
        (False, False),
        (False, False),
        (True, True),
        (True, False),
    ]
    await check_ledger(store)
    await store.commit(epoch + 1, Batch(8, ended=[end(Happening.SUCCEEDED, job_id=3)]))
    assert (await the(store, "new")).burst == Amounts()
    await check_ledger(store)


async def test_reserved_gpu_hours_move_and_used_ones_stay(store: Store) -> None:
    for name in ("old", "old/lab", "new"):
        await a_tenant(store, name)
    epoch = await store.claim()
    await store.submit([a_job(tenant_id="old/lab"), a_job(tenant_id="old/lab")], 1)
    both = [replace(assign(1), reserve_gpu_ms=60_000), replace(assign(2), reserve_gpu_ms=7000)]
    assert not (await store.commit(epoch, Batch(2, assigned=both))).refused
    await store.commit(epoch, Batch(3, started=[Started(nth(1), 1000), Started(nth(1, 2), 1000)]))
    ended = end(Happening.SUCCEEDED)
    ended = replace(ended, exit=replace(ended.exit, started_ms=1000, ended_ms=3000))
    await store.commit(epoch, Batch(3000, ended=[ended]))
    assert (await the(store, "old")).job_use.gpu_ms == 2000 + 7000
    await store.move_tenant("old/lab", "new/lab", ROOT, 3001)
    assert (await the(store, "old")).job_use.gpu_ms == 2000
    assert (await the(store, "new")).job_use.gpu_ms == 7000
    assert (await the(store, "new/lab")).job_use.gpu_ms == 2000 + 7000
    other = replace(end(Happening.SUCCEEDED, job_id=2), exit=replace(ended.exit, ended_ms=4000))
    await store.commit(epoch, Batch(4000, ended=[other]))
    assert (await the(store, "new")).job_use.gpu_ms == 3000
    assert (await the(store, "old")).job_use.gpu_ms == 2000
    await check_ledger(store)


async def test_a_tenant_is_not_moved_where_it_cannot_be(store: Store) -> None:
    deep = "a/b/c/d/e/f"
    parts = deep.split("/")
    for depth in range(len(parts)):
        await a_tenant(store, "/".join(parts[: depth + 1]))
    for name in ("x", "x/y", "x/y/z"):
        await a_tenant(store, name)
    before = await store.tenants()
    with pytest.raises(MisplacedTenantError, match="x/y/z/x is below x: a tenant cannot be moved"):
        await store.move_tenant("x", "x/y/z/x", ROOT, 2)
    with pytest.raises(MisplacedTenantError, match=r"'a/b/c/d/e/f/x/y/z' cannot be a tenant: up to 8 names"):
        await store.move_tenant("x", f"{deep}/x", ROOT, 2)
    for bad in ("X", "x y", "../x", "", "x//y", "x" * 64, "x/", "/x"):
        with pytest.raises((MisplacedTenantError, UnknownTenantError)):
            await store.move_tenant("a", bad, ROOT, 2)
    with pytest.raises(UnknownTenantError, match="'nobody'"):
        await store.move_tenant("x", "nobody/x", ROOT, 2)
    with pytest.raises(UnknownTenantError, match="'nobody'"):
        await store.move_tenant("nobody", "y", ROOT, 2)
    for there in ("a", "x", "a/b"):
        with pytest.raises(TenantExistsError, match=f"'{there}'"):
            await store.move_tenant("x", there, ROOT, 2)
    with pytest.raises(TenantInUseError, match="default is always there"):
        await store.move_tenant("default", "other", ROOT, 2)
    with pytest.raises(StaleVersionError):
        await store.move_tenant("x", "y", ROOT, 2, if_version=2)
    assert await store.tenants() == before
    await store.move_tenant("x/y", f"{deep}/y", ROOT, 3)
    assert f"{deep}/y/z" in await names(store)


async def test_names_that_only_begin_alike_are_left_alone(store: Store) -> None:
    for name in ("a_b", "a_b/x", "axb", "axb/x", "a_bc"):
        await a_tenant(store, name)
    await store.submit([a_job(tenant_id=name) for name in ("a_b/x", "axb/x", "a_bc")], 1)
    await store.move_tenant("a_b", "m", ROOT, 2)
    assert await names(store) == ["a_bc", "axb", "axb/x", "default", "m", "m/x"]
    jobs = await store.jobs(JobFilter(), Paging(oldest_first=True))
    assert [job.spec.tenant_id for job in jobs] == ["m/x", "axb/x", "a_bc"]


async def test_many_ended_jobs_follow_a_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renames, "AT_ONCE", 2)
    await a_tenant(store, "lab")
    epoch = await store.claim()
    await store.submit([a_job(tenant_id="lab" if number % 3 else "default") for number in range(12)], 1)
    closed = [TaskClosed(TaskId(number, 0), Happening.CANCELLED, Cause.CANCELLED) for number in range(1, 11)]
    await store.commit(epoch, Batch(2, closed=closed))
    await store.move_tenant("lab", "team", ROOT, 3)
    jobs = await store.jobs(JobFilter(), Paging(oldest_first=True))
    assert [job.spec.tenant_id for job in jobs] == ["default", "team", "team"] * 4


async def test_ended_jobs_that_could_not_follow_do_so_at_the_next_start(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the moves, though others have taken the old names since."""

    async def nobody_follows(_: SqliteStore) -> None:
        pass

    monkeypatch.setattr(SqliteStore, "let_history_follow", nobody_follows)
    store = await SqliteStore.open(database)
    epoch = await store.claim()
    for job_id, (here, there) in enumerate([("lab", "team"), ("lab", "crew"), ("team", "club")], 1):
        if await store.tenant(here) is None:
            await a_tenant(store, here)
        await store.submit([a_job(tenant_id=here)], 1)
        closed = TaskClosed(TaskId(job_id, 0), Happening.CANCELLED, Cause.CANCELLED)
        await store.commit(epoch, Batch(2, closed=[closed]))
        await store.move_tenant(here, there, ROOT, 3)
    await a_tenant(store, "lab")
    await store.submit([a_job(tenant_id="lab")], 4)
    await store.close()
    monkeypatch.undo()
    store = await SqliteStore.open(database)
    jobs = await store.jobs(JobFilter(), Paging(oldest_first=True))
    assert [job.spec.tenant_id for job in jobs] == ["club", "crew", "club", "lab"]
    await store.close()
    assert sqlite3.connect(database).execute("SELECT count(*) FROM renames").fetchone() == (0,)


async def test_the_loop_is_told_once_that_tenants_were_moved(store: Store) -> None:
    await a_tenant(store, "lab")
    await store.submit([a_job(tenant_id="lab")], 1)
    seq = (await store.load()).seq
    await store.move_tenant("lab", "team", ROOT, 2)
    assert (await store.changes(seq)).rearranged
    world = await store.load()
    assert [brief.tenant_id for brief in world.tasks] == ["team"]
    assert not (await store.changes(world.seq)).rearranged
    assert await store.submit([a_job(tenant_id="team")], 3)
    assert [event.job_id for event in await store.events(world.seq)] == [2]
