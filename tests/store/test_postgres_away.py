"""PostgreSQL that is stopped, killed, cut off or asleep: everybody is told, nobody hangs, and it goes on."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer, a_server
from tests.store.cutting_proxy import CuttingProxy
from tests.store.store_story import a_job, assign
from tgpu.store import postgres_line
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Batch, IdempotencyKey, StoreUnavailableError, Submitted
from tgpu.store.postgres import PostgresStore
from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_driver import PostgresReader

SHORT = Patience(
    connect_s=2, idle_in_transaction_s=0.6, lock_s=0.8, statement_s=1.0, answer_s=1.5, reading_s=1.0
)
GONE = r"postgresql://tgpu@127.0.0.1:\d+/\w+ cannot be reached \(.*\): check that PostgreSQL runs"


@pytest.fixture(scope="module")
def fragile() -> Iterator[PostgresServer]:
    """A server of these tests' own, which keeps what it says it keeps."""
    with a_server() as server:
        yield server


@pytest.fixture
def fragile_url(fragile: PostgresServer) -> str:
    if not fragile.is_running:
        fragile.start()
    return fragile.url(fragile.new_database())


async def until_it_works(store: PostgresStore) -> Submitted:
    for _ in range(300):
        try:
            return await store.submit([a_job()], 9)
        except StoreUnavailableError:
            await asyncio.sleep(0.05)
    raise AssertionError("it never came back")


async def test_a_stopped_server_is_told_of_and_a_started_one_is_found_again(
    fragile: PostgresServer, fragile_url: str
) -> None:
    store = await PostgresStore.open(fragile_url)
    epoch = await store.claim()
    await store.submit([a_job()], 1)
    woken = asyncio.Event()
    store.subscribe_events(woken.set)
    fragile.stop()
    for work in (
        store.submit([a_job()], 2),
        store.commit(epoch, Batch(3, assigned=[assign()])),
        store.request_cancel([1], "ann", 4),
        store.campaign("s", 1000),
    ):
        with pytest.raises(StoreUnavailableError, match=GONE + ".*; nothing was changed$"):
            await asyncio.wait_for(work, 10)
    for look in (store.job(1), store.load(), store.last_seq()):
        with pytest.raises(StoreUnavailableError, match=GONE) as told:
            await asyncio.wait_for(look, 10)
        assert told.value.why.endswith("the server goes on by itself when it is back")
    woken.clear()
    fragile.start()
    await asyncio.wait_for(woken.wait(), 10)  # something may have been missed
    assert (await until_it_works(store)).job_ids == [2]
    assert [job.job_id for job in await store.jobs(JobFilter(), Paging())] == [2, 1]
    assert not (await store.commit(epoch, Batch(3, assigned=[assign()]))).refused
    await store.close()


async def test_once_one_line_has_reached_the_server_the_others_do_not_pause(
    fragile: PostgresServer, fragile_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a server that has answered one caller refuses the next ones for a while."""
    monkeypatch.setattr(postgres_line, "_FIRST_PAUSE_S", 600.0)
    monkeypatch.setattr(postgres_line, "_LONGEST_PAUSE_S", 600.0)
    address, contact = PostgresAddress.parse(fragile_url), postgres_line.Contact()
    first, second = (PostgresReader(address, SHORT, contact) for _ in range(2))
    fragile.stop()
    with pytest.raises(StoreUnavailableError, match=GONE):
        first.read(lambda _: None)
    fragile.start()
    with pytest.raises(StoreUnavailableError, match=GONE):
        first.read(lambda _: None)  # it pauses
    second.read(lambda _: None)
    first.read(lambda _: None)
    for reader in (first, second):
        reader.close()


async def test_what_was_answered_survives_a_crash_of_the_server(
    fragile: PostgresServer, fragile_url: str
) -> None:
    store = await PostgresStore.open(fragile_url)
    answered: list[int] = []
    enough = asyncio.Event()

    async def submit() -> None:
        while True:
            answered.extend((await store.submit([a_job()], 1)).job_ids)
            if len(answered) >= 100:
                enough.set()

    users = [asyncio.ensure_future(submit()) for _ in range(8)]
    await enough.wait()
    await asyncio.to_thread(fragile.kill)
    for error in await asyncio.gather(*users, return_exceptions=True):
        assert isinstance(error, StoreUnavailableError)
    fragile.start()
    await until_it_works(store)
    kept = [job.job_id for job in await store.jobs(JobFilter(), Paging(100_000, oldest_first=True))]
    assert set(answered) <= set(kept)
    assert kept == list(range(1, len(kept) + 1))
    assert [event.seq for event in await store.events(limit=100_000)] == kept
    await store.close()


async def test_idle_lines_that_were_cut_are_made_again_unnoticed(
    fragile: PostgresServer, fragile_url: str
) -> None:
    store = await PostgresStore.open(fragile_url)
    other = await PostgresStore.open(fragile_url)
    await store.submit([a_job()], 1)
    assert await store.last_seq() == 1
    cut_all(fragile, fragile_url)
    await asyncio.sleep(0.2)
    assert await store.submit([a_job()], 2) == Submitted([2])
    assert len(await store.jobs(JobFilter(), Paging())) == 2
    heard = asyncio.Event()
    store.subscribe(heard.set)
    await other.submit([a_job()], 3)
    await asyncio.wait_for(heard.wait(), 5)
    await store.close()
    await other.close()


def cut_all(server: PostgresServer, url: str) -> None:
    name = url.rpartition("/")[2]
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


async def test_a_line_that_is_cut_in_the_middle_of_a_change_undoes_it(
    fragile: PostgresServer, fragile_url: str
) -> None:
    store = await PostgresStore.open(fragile_url)
    begun, cut = threading.Event(), threading.Event()

    def change(session: object) -> None:
        session._cursor.execute("DELETE FROM tenants")  # type: ignore[attr-defined]
        begun.set()
        cut.wait()
        session._cursor.execute("SELECT 1")  # type: ignore[attr-defined]

    work = asyncio.ensure_future(store._write(change))
    await asyncio.to_thread(begun.wait)
    cut_all(fragile, fragile_url)
    cut.set()
    with pytest.raises(StoreUnavailableError, match=r"; nothing was changed$"):
        await work
    assert len(await store.tenants()) == 1
    await store.close()


async def test_a_commit_without_an_answer_is_in_doubt_and_its_key_settles_it(
    fragile: PostgresServer, fragile_url: str
) -> None:
    proxy = CuttingProxy(fragile.port)
    store = await PostgresStore.open(fragile_url.replace(f":{fragile.port}/", f":{proxy.port}/"))
    key = IdempotencyKey("ann", "k", "d")
    await store.submit([a_job()], 1)
    proxy.cuts_at_commit = True
    with pytest.raises(StoreUnavailableError, match="whether the change was made is not known"):
        await store.submit([a_job()], 2, key)
    assert await store.submit([a_job()], 2, key) == Submitted([2], replayed=True)
    assert await store.last_seq() == 2
    await store.close()
    proxy.close()


async def test_a_server_that_sleeps_keeps_nobody_waiting_for_ever(
    fragile: PostgresServer, fragile_url: str
) -> None:
    store = await PostgresStore.open(fragile_url, patience=SHORT)
    await store.submit([a_job()], 1)
    assert await store.last_seq() == 1
    fragile.pause()
    try:
        for work in (store.submit([a_job()], 2), store.last_seq()):
            with pytest.raises(StoreUnavailableError, match=GONE):
                await asyncio.wait_for(work, 15)
        with pytest.raises(StoreUnavailableError, match=GONE):
            await asyncio.wait_for(PostgresStore.open(fragile_url, patience=SHORT), 15)
    finally:
        fragile.resume()
    again = await until_it_works(store)
    jobs = await store.jobs(JobFilter(), Paging())
    assert [job.job_id for job in jobs] == list(range(again.job_ids[0], 0, -1))
    await store.close()


async def test_server_that_sleeps_in_a_transaction_loses_its_locks_and_repeats_the_transaction(
    fragile_url: str,
) -> None:
    sleeper = await PostgresStore.open(fragile_url, patience=SHORT)
    other = await PostgresStore.open(fragile_url, patience=SHORT)
    begun, awake = threading.Event(), threading.Event()
    tries = 0

    def sleep(session: object) -> None:
        nonlocal tries
        tries += 1
        session._cursor.execute("UPDATE counters SET last_seq = last_seq")  # type: ignore[attr-defined]
        begun.set()
        awake.wait()

    work = asyncio.ensure_future(sleeper._write(sleep))
    await asyncio.to_thread(begun.wait)
    assert await asyncio.wait_for(other.submit([a_job()], 1), 10) == Submitted([1])
    awake.set()
    await work
    assert tries == 2
    assert await sleeper.submit([a_job()], 2) == Submitted([2])
    await sleeper.close()
    await other.close()


async def test_a_standby_is_not_believed_until_it_leads(fragile: PostgresServer, fragile_url: str) -> None:
    """What is read there may be older than what was answered."""
    store = await PostgresStore.open(fragile_url)
    await store.submit([a_job()], 1)
    assert await store.last_seq() == 1
    fragile.stop()
    fragile.make_standby()
    fragile.start()
    for work in (store.submit([a_job()], 2), store.last_seq()):
        with pytest.raises(
            StoreUnavailableError, match="is a standby and cannot be written: name the primary"
        ):
            await work
    fragile.promote()
    assert (await until_it_works(store)).job_ids == [2]
    assert await store.last_seq() == 2
    await store.close()


async def test_a_store_is_closed_while_the_server_is_away(fragile: PostgresServer, fragile_url: str) -> None:
    store = await PostgresStore.open(fragile_url, patience=SHORT)
    fragile.stop()
    await asyncio.wait_for(store.close(), 10)
    for work in (store.submit([a_job()], 1), store.last_seq()):
        with pytest.raises(StoreUnavailableError, match="closed"):
            await work
