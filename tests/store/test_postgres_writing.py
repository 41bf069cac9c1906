"""How one server writes to PostgreSQL: what shares a transaction, and what becomes of one that fails."""

import asyncio
import threading

import psycopg
import pytest
import uvloop

from tests.postgres_server import PostgresServer
from tests.store.store_story import a_job, assign
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Batch, IdempotencyKey, StoreUnavailableError, Submitted, UnknownTenantError
from tgpu.store.postgres import PostgresStore


def transactions(server: PostgresServer, url: str) -> int:
    """In how many the jobs were written that there are."""
    ((number,),) = server.execute("SELECT count(DISTINCT xmin::text) FROM jobs", url.rpartition("/")[2])
    assert isinstance(number, int)
    return number


async def test_those_who_submit_at_the_same_time_share_a_transaction(
    postgres: PostgresServer, postgres_url: str
) -> None:
    store = await PostgresStore.open(postgres_url)
    held = threading.Event()
    blocker = asyncio.ensure_future(store._write(lambda _: held.wait()))
    await asyncio.sleep(0.05)
    work = [asyncio.ensure_future(store.submit([a_job()], 1)) for _ in range(40)]
    work += [asyncio.ensure_future(store.submit([a_job()], 1, IdempotencyKey("ann", "k", "d")))]
    await asyncio.sleep(0.05)
    held.set()
    answers = await asyncio.gather(*work)
    await blocker
    assert transactions(postgres, postgres_url) == 1
    assert [answer.job_ids for answer in answers] == [[number] for number in range(1, 42)]
    await store.close()


async def test_a_lease_is_renewed_while_the_writer_is_busy(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    epoch = await store.campaign("a", 60_000)
    assert epoch is not None
    held = threading.Event()
    blocker = asyncio.ensure_future(store._write(lambda _: held.wait()))
    async with asyncio.timeout(60):
        assert await store.renew(epoch, 60_000)
    assert not blocker.done()
    held.set()
    await blocker
    await store.close()


async def test_those_who_are_refused_harm_nobody_else(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    held = threading.Event()
    blocker = asyncio.ensure_future(store._write(lambda _: held.wait()))
    await asyncio.sleep(0.05)
    work = [
        asyncio.ensure_future(store.submit([a_job(tenant_id="nobody" if number % 7 == 1 else "default")], 1))
        for number in range(30)
    ]
    held.set()
    answers = await asyncio.gather(*work, return_exceptions=True)
    await blocker
    expected = [UnknownTenantError if number % 7 == 1 else Submitted for number in range(30)]
    assert [type(answer) for answer in answers] == expected
    assert [job.job_id for job in await store.jobs(JobFilter(), Paging())] == list(range(25, 0, -1))
    await store.close()


async def test_a_mistake_in_one_request_is_its_own(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    good, bad = await asyncio.gather(
        store.submit([a_job()], 1), store.submit([a_job(priority=2**70)], 1), return_exceptions=True
    )
    assert good == Submitted([1])
    assert isinstance(bad, psycopg.DataError)
    assert await store.submit([a_job()], 2) == Submitted([2])
    await store.close()


async def test_two_wishes_to_cancel_one_job_are_answered_one_after_the_other(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await store.submit([a_job(), a_job()], 1)
    held = threading.Event()
    blocker = asyncio.ensure_future(store._write(lambda _: held.wait()))
    await asyncio.sleep(0.05)
    work = [asyncio.ensure_future(store.request_cancel([1, 9, 1], by, 2)) for by in ("ann", "bob")]
    await asyncio.sleep(0.05)
    held.set()
    (first, unknown, again), (second, *_) = await asyncio.gather(*work)
    await blocker
    assert first is not None
    assert second is not None
    assert (first.cancel_by, unknown, again, second.cancel_by) == (None, None, first, "ann")
    assert [event.data for event in await store.events(2)] == [{"by": "ann"}]
    await store.close()


async def test_whoever_is_caught_in_a_circle_of_locks_tries_again(
    postgres: PostgresServer, postgres_url: str
) -> None:
    """Somebody at the database's own prompt does not keep to the order."""
    store = await PostgresStore.open(postgres_url)
    with psycopg.connect(postgres_url) as somebody:
        somebody.execute("UPDATE counters SET last_seq = last_seq")
        work = asyncio.ensure_future(store.submit([a_job()], 1))  # holds its tenant, wants the counters
        await asyncio.sleep(0.3)
        await asyncio.to_thread(somebody.execute, "UPDATE tenants SET weight = weight")
    assert await work == Submitted([1])
    await store.close()
    name = postgres_url.rpartition("/")[2]
    assert postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'") == [(1,)]


async def test_what_was_seen_stays_until_a_reading_ends(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    epoch = await store.claim()
    await store.submit([a_job()], 1)
    read, written = threading.Event(), threading.Event()

    def look_twice(session: object) -> list[object]:
        seen = []
        for _ in range(2):
            session._cursor.execute("SELECT status FROM tasks")  # type: ignore[attr-defined]
            seen += session._cursor.fetchall()  # type: ignore[attr-defined]
            read.set()
            written.wait()
        return seen

    looking = asyncio.ensure_future(store._read(look_twice))
    await asyncio.to_thread(read.wait)
    await store.commit(epoch, Batch(2, assigned=[assign()]))
    written.set()
    assert await looking == [("pending",), ("pending",)]
    await store.close()


async def test_readers_cannot_write(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        await store._read(lambda session: session._cursor.execute("DELETE FROM tenants"))
    assert len(await store.tenants()) == 1
    await store.close()


async def test_every_commit_is_durable_whatever_the_database_is_set_to(
    postgres: PostgresServer, postgres_url: str
) -> None:
    name = postgres_url.rpartition("/")[2]
    postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    store = await PostgresStore.open(postgres_url)

    def setting(session: object) -> object:
        session._cursor.execute("SHOW synchronous_commit")  # type: ignore[attr-defined]
        return session._cursor.fetchone()  # type: ignore[attr-defined]

    assert await store._write(setting) == ("on",)
    await store.close()


def test_a_store_outlives_the_loop_it_was_opened_on(postgres_url: str) -> None:
    store = asyncio.run(PostgresStore.open(postgres_url))
    assert uvloop.run(store.submit([a_job()], 1)) == Submitted([1])
    assert asyncio.run(store.last_seq()) == 1
    uvloop.run(store.close())


async def test_what_is_new_is_found_by_keys_in_a_table_that_nobody_has_analysed(
    postgres: PostgresServer, postgres_url: str
) -> None:
    store = await PostgresStore.open(postgres_url)
    await store.submit([a_job() for _ in range(2000)], 1)
    for _ in range(3):
        assert [task.task_id.job_id for task in (await store.changes(1998)).submitted] == [1999, 2000]
    await store.close()  # what a connection has done is counted by its end
    scans = "SELECT relname FROM pg_stat_user_tables WHERE seq_scan > 0 AND relname IN ('events', 'tasks')"
    assert postgres.execute(scans, postgres_url.rpartition("/")[2]) == []
