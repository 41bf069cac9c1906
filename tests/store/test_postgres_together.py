"""Several servers on one PostgreSQL: what each of them writes holds for all, exactly once and in order."""

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.store.store_story import ROOT, a_job, assign, end, nth, running, setting
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.quota import Limits
from tgpu.domain.tenant import Tenant
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    DeposedError,
    IdempotencyKey,
    Started,
    TenantExistsError,
)
from tgpu.store.postgres import PostgresStore
from tgpu.store.quota_port import QuotaExceededError

ROUNDS = 25
TENANTS = ("default", "lab", "lab/ann", "lab/bob")

SERVER = """
import asyncio, sys
from random import Random
sys.path.insert(0, sys.argv[2])
from tests.store.store_story import a_job
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.postgres import PostgresStore

async def use(store, chance):
    for _ in range(int(sys.argv[4])):
        tenants = [chance.choice(("default", "lab", "lab/ann", "lab/bob")) for _ in range(3)]
        answer = await store.submit([a_job(tenant_id=tenant) for tenant in tenants], 1)
        print(*answer.job_ids, flush=True)
        if chance.random() < 0.5:
            some = [chance.randint(1, answer.job_ids[0]) for _ in range(5)]
            await store.request_cancel(some, "ann", 2)

async def main():
    store = await PostgresStore.open(sys.argv[1])
    chance = Random(int(sys.argv[3]))
    await asyncio.gather(*(use(store, chance) for _ in range(4)))
    await store.close()

asyncio.run(main())
"""


async def lead(store: PostgresStore, epoch: int, stop: asyncio.Event) -> None:
    """Takes every task that waits through its life, as many at a time as there are."""
    while not stop.is_set():
        waiting = await store.jobs(JobFilter(frozenset({Status.PENDING})), Paging(200, oldest_first=True))
        ids = [AttemptId(job.job_id, 0, 1) for job in waiting if job.cancel_by is None]
        receipt = await store.commit(epoch, Batch(5, assigned=[Assigned(one, "n1", (0,)) for one in ids]))
        taken = [AttemptId(event.job_id, 0, 1) for event in receipt.events]
        await store.commit(epoch, Batch(6, started=[Started(one, 6) for one in taken]))
        done = Exit(Cause.EXITED, 0, started_ms=6, ended_ms=7)
        ended = [AttemptEnded(one, done, Happening.SUCCEEDED) for one in taken[::2]]
        assert not (await store.commit(epoch, Batch(7, ended=ended))).refused


async def follow(store: PostgresStore, stop: asyncio.Event) -> tuple[list[int], Counter[int]]:
    """The numbers of all events and the jobs that were submitted, as a follower learns of them."""
    flag = asyncio.Event()
    store.subscribe_events(flag.set)
    numbers: list[int] = []
    submitted: Counter[int] = Counter()
    asked = 0
    while True:
        over = stop.is_set()
        numbers += [event.seq for event in await store.events(numbers[-1] if numbers else 0)]
        changes = await store.changes(asked)
        submitted.update(brief.task_id.job_id for brief in changes.submitted)
        asked = changes.seq
        if over and asked == await store.last_seq() == (numbers[-1] if numbers else 0):
            return numbers, submitted
        flag.clear()
        try:
            await asyncio.wait_for(flag.wait(), 0.2)
        except TimeoutError:
            continue


async def test_servers_that_write_at_the_same_time_lose_double_and_disorder_nothing(
    postgres_url: str, postgres: PostgresServer
) -> None:
    leader, follower = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    for name in TENANTS[1:]:
        await leader.create_tenant(Tenant(name), ROOT, 1)
    epoch = await leader.claim()
    users_gone, all_done = asyncio.Event(), asyncio.Event()
    leading = asyncio.ensure_future(lead(leader, epoch, users_gone))
    following = asyncio.ensure_future(follow(follower, all_done))
    here = Path(__file__).parents[2]
    servers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, postgres_url, here, str(seed), str(ROUNDS), stdout=subprocess.PIPE
        )
        for seed in range(3)
    ]
    said = [await server.communicate() for server in servers]
    assert [server.returncode for server in servers] == [0, 0, 0]
    users_gone.set()
    await leading
    all_done.set()
    numbers, submitted = await following
    answered = [int(number) for out, _ in said for number in out.split()]
    assert sorted(answered) == list(range(1, 3 * 4 * ROUNDS * 3 + 1))
    assert numbers == list(range(1, len(numbers) + 1))
    jobs = await leader.jobs(JobFilter(), Paging(100_000))
    # Whoever follows sees each submission once, or what came of it if that was faster.
    assert set(submitted.values()) == {1}
    assert {job.job_id for job in jobs} == set(answered)
    live = [job for job in jobs if not job.status.is_final]
    for tenant in await leader.tenants():
        below = [job for job in live if f"{job.spec.tenant_id}/".startswith(f"{tenant.tenant_id}/")]
        assert tenant.used.gpu_milli == 1000 * len(below)
    assert {job.status for job in jobs} >= {Status.COMPLETED, Status.RUNNING}
    await leader.close()
    await follower.close()
    name = postgres_url.rpartition("/")[2]
    assert postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'") == [(0,)]


async def test_a_quota_is_never_exceeded_by_two_at_once(postgres_url: str) -> None:
    one, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    await one.create_tenant(Tenant("lab", limits=Limits(gpu_milli=10_000)), ROOT, 1)
    answers = await asyncio.gather(
        *(store.submit([a_job(tenant_id="lab")], 1) for store in (one, other) * 20), return_exceptions=True
    )
    refused = [answer for answer in answers if isinstance(answer, QuotaExceededError)]
    assert len(answers) - len(refused) == 10
    assert (await one.tenant("lab") or Tenant("")).used.gpu_milli == 10_000
    await one.close()
    await other.close()


async def test_the_same_key_at_two_servers_submits_once(postgres_url: str) -> None:
    one, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    for number in range(10):
        key = IdempotencyKey("ann", str(number), "d")
        answers = await asyncio.gather(
            *(store.submit([a_job()] * 3, 1, key) for store in (one, other, one, other))
        )
        assert len({tuple(answer.job_ids) for answer in answers}) == 1
        assert sorted(answer.replayed for answer in answers) == [False, True, True, True]
    assert len(await one.jobs(JobFilter(), Paging())) == 30
    assert await one.last_seq() == 30
    await one.close()
    await other.close()


async def test_a_tenant_that_two_servers_make_and_change_is_made_once(postgres_url: str) -> None:
    one, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    made = await asyncio.gather(
        *(store.create_tenant(Tenant("lab"), ROOT, 1) for store in (one, other)), return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in made) == ["Tenant", TenantExistsError.__name__]
    changed = await asyncio.gather(
        *(
            store.update_tenant("lab", lambda tenant: setting(weight=tenant.weight + 1)(tenant), ROOT, 1)
            for store in (one, other) * 4
        )
    )
    assert sorted(tenant.version for tenant in changed) == list(range(2, 10))
    await one.close()
    await other.close()


async def test_only_one_of_many_campaigns_is_won(postgres_url: str) -> None:
    stores = [await PostgresStore.open(postgres_url) for _ in range(4)]
    for _ in range(5):
        epochs = await asyncio.gather(
            *(store.campaign(f"s{number}", 60_000) for number, store in enumerate(stores))
        )
        (won,) = [epoch for epoch in epochs if epoch is not None]
        await stores[0].resign(won)
    for store in stores:
        await store.close()


async def test_a_deposed_leader_writes_nothing_more(postgres_url: str) -> None:
    old, new = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    epoch = await running(old)
    later = await new.claim()
    with pytest.raises(DeposedError):
        await old.commit(epoch, Batch(90, ended=[end(Happening.SUCCEEDED)]))
    assert not (await new.commit(later, Batch(90, ended=[end(Happening.SUCCEEDED)]))).refused
    await old.close()
    await new.close()


async def test_a_wish_to_cancel_is_not_passed_over_by_an_assignment(postgres_url: str) -> None:
    """Whichever is first, the other one sees it."""
    leader, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    epoch = await leader.claim()
    for job_id in range(1, 31):
        await other.submit([a_job()], 1)
        receipt, (before,) = await asyncio.gather(
            leader.commit(epoch, Batch(2, assigned=[assign(job_id)])),
            other.request_cancel([job_id], "ann", 2),
        )
        assert before is not None
        kinds = [event.kind for event in await leader.events(job_id=job_id)]
        if receipt.refused:
            assert before.status is Status.PENDING
            assert kinds == ["submitted", "cancel-requested"]
        else:
            assert before.status is Status.SCHEDULED
            assert kinds == ["submitted", "assigned", "cancel-requested"]
            done = Exit(Cause.CANCELLED, None, ended_ms=3)
            await leader.commit(
                epoch, Batch(3, ended=[AttemptEnded(nth(1, job_id), done, Happening.CANCELLED)])
            )
    await leader.close()
    await other.close()


async def test_nobody_locks_crosswise(postgres_url: str, postgres: PostgresServer) -> None:
    one, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    epoch = await one.claim()
    tenants = [f"t{number}" for number in range(20)]
    for tenant in tenants:
        await one.create_tenant(Tenant(tenant), ROOT, 1)
    for _ in range(8):
        specs = [a_job(tenant_id=tenant) for tenant in tenants * 50]
        submitted, _ = await asyncio.gather(one.submit(specs, 1), other.submit(specs[::-1], 1))
        assigned = [assign(job_id) for job_id in submitted.job_ids[::2] + submitted.job_ids[1::2]]
        await asyncio.gather(
            one.request_cancel(submitted.job_ids[200:], "ann", 2),
            other.request_cancel(submitted.job_ids[:199:-1], "bob", 2),
        )
        await asyncio.gather(
            one.commit(epoch, Batch(2, assigned=assigned)),
            other.request_cancel(submitted.job_ids[::-1], "ann", 2),
            other.submit(specs[::-1], 2),
        )
    await one.close()
    await other.close()
    name = postgres_url.rpartition("/")[2]
    assert postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'") == [(0,)]


async def test_one_server_wakes_the_others(postgres_url: str) -> None:
    one, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    wished, happened = asyncio.Event(), asyncio.Event()
    other.subscribe(wished.set)
    other.subscribe_events(happened.set)
    epoch = await one.claim()
    assert not wished.is_set()
    await one.submit([a_job()], 1)
    await asyncio.wait_for(asyncio.gather(wished.wait(), happened.wait()), 5)
    wished.clear()
    happened.clear()
    await one.commit(epoch, Batch(2, assigned=[assign()]))
    await asyncio.wait_for(happened.wait(), 5)
    assert not wished.is_set()
    await one.create_tenant(Tenant("lab"), ROOT, 1)
    await asyncio.wait_for(wished.wait(), 5)
    await one.close()
    await other.close()


async def test_what_a_store_writes_itself_wakes_it_once(postgres_url: str, postgres: PostgresServer) -> None:
    store = await PostgresStore.open(postgres_url)
    woken: list[str] = []
    store.subscribe(lambda: woken.append("wished"))
    store.subscribe_events(lambda: woken.append("happened"))
    await store.submit([a_job()], 1)
    postgres.execute("NOTIFY tgpu, 'of another version'", postgres_url.rpartition("/")[2])
    await asyncio.sleep(0.3)
    assert woken == ["wished", "happened"]
    await store.close()
