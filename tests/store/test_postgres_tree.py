"""Changes of the tree by several servers at once, while others submit and a leader commits."""

import asyncio
from collections import Counter
from dataclasses import replace

from tests.postgres_server import PostgresServer
from tests.store.store_story import ROOT, a_job, assign, end, nth, setting
from tgpu.domain.lifecycle import Happening, Status
from tgpu.domain.quota import Limits
from tgpu.domain.tenant import Tenant
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.needs_port import ChangedMeanwhileError, NotWaitingError
from tgpu.store.port import Batch, Started, Store, TenantExistsError, UnknownTenantError
from tgpu.store.postgres import PostgresStore
from tgpu.store.quota_port import QuotaExceededError

PLACES = ("lab", "org/lab", "org/team", "other/lab")


async def submit_anywhere(store: Store, answers: Counter[str], taken: list[int]) -> None:
    for number in range(60):
        where = PLACES[number % len(PLACES)] + ("/ann" if number % 3 else "")
        try:
            taken += (await store.submit([a_job(tenant_id=where)], number)).job_ids
            answers["taken"] += 1
        except UnknownTenantError:
            answers["unknown"] += 1
        except QuotaExceededError:
            answers["full"] += 1


EDITED_AT_ONCE = 5


async def edit_what_waits(store: Store, edits: Counter[str]) -> None:
    for number in range(60):
        waiting = JobFilter(statuses=frozenset({Status.PENDING}))
        for job in await store.jobs(waiting, Paging(EDITED_AT_ONCE)):
            group = job.spec.groups[0]
            other = replace(group, request=replace(group.request, gpu_milli=1000 + 100 * (number % 3)))
            try:
                await store.edit(job, replace(job.spec, groups=(other,)), "ann", number, {})
                edits["taken"] += 1
            except (ChangedMeanwhileError, NotWaitingError, QuotaExceededError):
                edits["refused"] += 1
        await asyncio.sleep(0.005)


async def move_about(store: Store) -> None:
    here = "lab"
    for number in range(24):
        there = PLACES[(number + 1) % len(PLACES)]
        await store.move_tenant(here, there, ROOT, number)
        here = there
        await asyncio.sleep(0.01)


async def limit_again_and_again(store: Store) -> None:
    for number in range(24):
        named = (("gpu:a100", 1000 * number),) if number % 2 else ()
        limits = Limits(gpu_milli=2000 * number if number % 3 else None, named=named)
        await store.update_tenant("org", setting(limits=limits), ROOT, number)
        await asyncio.sleep(0.01)


async def lead(store: Store, done: asyncio.Event) -> None:
    """Starts what waits and ends what runs, as long as there is anything; but for a few, so that however slow
    others are, there is something left for them to edit."""
    epoch = await store.claim()
    while True:
        last = done.is_set()
        live = [job for job in await store.jobs(JobFilter(), Paging(1000)) if not job.status.is_final]
        waiting = [job.job_id for job in live if job.status.waits][EDITED_AT_ONCE:][:10]
        running = [job.job_id for job in live if not job.status.waits][:7]
        await store.commit(epoch, Batch(1, assigned=[assign(job_id) for job_id in waiting]))
        await store.commit(epoch, Batch(2, started=[Started(nth(1, job_id), 2) for job_id in waiting]))
        ended = [end(Happening.SUCCEEDED, job_id=job_id) for job_id in running]
        await store.commit(epoch, Batch(3, ended=ended))
        if last:
            return


async def test_tenants_are_moved_while_others_submit_into_them(
    postgres: PostgresServer, postgres_url: str
) -> None:
    stores = [await PostgresStore.open(postgres_url) for _ in range(4)]
    for name in ("org", "other", "lab", "lab/ann"):
        await stores[0].create_tenant(Tenant(name), ROOT, 1)
    answers: Counter[str] = Counter()
    edits: Counter[str] = Counter()
    taken: list[int] = []
    done = asyncio.Event()
    leading = asyncio.create_task(lead(stores[3], done))
    await asyncio.gather(
        *(submit_anywhere(stores[number % 3], answers, taken) for number in range(6)),
        *(edit_what_waits(stores[number], edits) for number in range(2)),
        move_about(stores[1]),
        limit_again_and_again(stores[2]),
    )
    done.set()
    await leading
    assert answers.total() == 360
    assert answers["taken"] > 20
    assert answers["unknown"] > 20
    assert edits["taken"] > 20
    names = {tenant.tenant_id for tenant in await stores[0].tenants()}
    assert names == {"default", "org", "other", "lab", "lab/ann"}
    jobs = await stores[0].jobs(JobFilter(), Paging(1000))
    assert sorted(job.job_id for job in jobs) == sorted(taken)
    assert {job.spec.tenant_id for job in jobs} <= {"lab", "lab/ann"}
    assert await stores[0].recount(await stores[0].claim()) == []
    for store in stores:
        await store.close()
    name = postgres_url.rpartition("/")[2]
    deadlocks = postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'")
    assert deadlocks == [(0,)], "somebody locks in another order"


async def test_only_one_of_two_servers_moves_a_tenant(postgres_url: str) -> None:
    stores = [await PostgresStore.open(postgres_url) for _ in range(2)]
    await stores[0].create_tenant(Tenant("lab"), ROOT, 1)
    answers = await asyncio.gather(
        *(store.move_tenant("lab", "team", ROOT, 2) for store in stores), return_exceptions=True
    )
    assert sum(isinstance(answer, Tenant) for answer in answers) == 1
    assert sum(isinstance(answer, UnknownTenantError | TenantExistsError) for answer in answers) == 1
    for store in stores:
        await store.close()


async def test_a_tenant_is_removed_or_submitted_to_and_never_both(postgres_url: str) -> None:
    stores = [await PostgresStore.open(postgres_url) for _ in range(2)]
    outcomes: Counter[str] = Counter()
    for number in range(20):
        name = f"lab{number}"
        await stores[0].create_tenant(Tenant(name), ROOT, 1)
        submitted, removed = await asyncio.gather(
            stores[0].submit([a_job(tenant_id=name)], 1),
            stores[1].remove_tenant(name, ROOT, 2),
            return_exceptions=True,
        )
        is_there = await stores[0].tenant(name) is not None
        assert isinstance(submitted, BaseException) is not is_there
        assert (removed is True) is not is_there
        outcomes["kept" if is_there else "removed"] += 1
    assert await stores[0].recount(await stores[0].claim()) == []
    for store in stores:
        await store.close()
