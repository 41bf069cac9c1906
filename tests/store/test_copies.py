"""Backups of the file: consistent while others write, and safe when they are put back."""

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.store.store_story import ROOT, a_job, an_array, assign, end, nth, running
from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.store.access_port import AuditFilter
from tgpu.store.cluster_port import ServerRow
from tgpu.store.port import Batch, DeposedError, Store, StoreUnusableError, TaskClosed
from tgpu.store.postgres import PostgresStore
from tgpu.store.postgres_restoring import mark_restored
from tgpu.store.series_port import Grown
from tgpu.store.sql.restoring import ATTEMPTS, EPOCHS, JOB_IDS
from tgpu.store.sqlite import SqliteStore
from tgpu.store.sqlite_copies import Copied, CopyError, back_up, put_back
from tgpu.store.task_paging import TaskPaging


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_a_backup_is_one_moment_of_a_store_that_is_written_to(database: Path, tmp_path: Path) -> None:
    store = await SqliteStore.open(database)
    await store.submit([a_job()] * 100, 1)

    async def write() -> None:
        for _ in range(50):
            await store.submit([a_job()] * 2, 2)

    writing = asyncio.create_task(write())
    copies = [await asyncio.to_thread(back_up, database, tmp_path / f"copy{n}") for n in range(5)]
    await writing
    await store.close()
    for number, copied in enumerate(copies):
        with sqlite3.connect(tmp_path / f"copy{number}") as copy:
            (jobs, highest, tasks) = copy.execute(
                "SELECT (SELECT count(*) FROM jobs), (SELECT last_job_id FROM counters),"
                " (SELECT count(*) FROM tasks)"
            ).fetchone()
        assert jobs == highest == tasks == copied.jobs
        assert jobs % 2 == 0
    assert sorted(name for name in names_in(tmp_path) if "copy" in name) == [f"copy{n}" for n in range(5)]
    assert mode_of(tmp_path / "copy0") == 0o600


async def test_a_backup_replaces_nothing_and_needs_something_to_copy(database: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("precious")
    with pytest.raises(CopyError, match="is there already: name a new file"):
        back_up(database, there)
    assert there.read_text() == "precious"
    with pytest.raises(CopyError, match="there is no"):
        back_up(tmp_path / "none.db", tmp_path / "x")
    with pytest.raises(CopyError, match="cannot be written"):
        back_up(database, tmp_path / "no" / "where")
    assert isinstance(back_up(database, tmp_path / "x"), Copied)


async def test_what_was_given_out_since_is_not_given_out_again(database: Path, tmp_path: Path) -> None:
    store = await SqliteStore.open(database)
    epoch = await running(store)
    await store.submit([a_job()], 30)
    await store.note(ROOT, "node.drain", "n1", "", "", 31)
    back_up(database, tmp_path / "copy")
    await store.submit([a_job()] * 3, 40)
    requeued = end(Happening.REQUEUED, Cause.NODE_LOST, None)
    await store.commit(epoch, Batch(50, ended=[requeued], assigned=[assign(2, 1)]))
    await store.commit(epoch, Batch(51, assigned=[assign(1, 2)]))
    await store.commit(epoch, Batch(52, ended=[end(Happening.SUCCEEDED, number=2)]))
    seq = await store.last_seq()
    await store.close()
    restored = put_back(database, tmp_path / "copy", 60)
    assert (restored.jobs, restored.epoch, restored.forgotten) == (2, epoch + EPOCHS.least, [3, 4, 5])
    assert restored.changed == [1, 2]
    assert restored.kept_as is not None
    store = await SqliteStore.open(database)
    world = await store.load()
    assert world.restored
    # Job 1 is over in the file before, so nobody knows how often it was tried; job 2 was tried once.
    assert [task.attempts for task in world.tasks] == [1 + ATTEMPTS.least, 1]
    assert [attempt.attempt_id for attempt in world.attempts] == [nth(1)]
    assert (await store.submit([a_job()], 70)).job_ids == [6]
    assert (await store.events(seq))[0].kind == "submitted"
    with pytest.raises(DeposedError):
        await store.commit(epoch + 5, Batch(71))
    newer = await store.claim()
    assert newer > epoch + EPOCHS.least
    receipt = await store.commit(newer, Batch(72, ended=[end(Happening.REQUEUED, Cause.NODE_LOST, None)]))
    assert receipt.refused == []
    receipt = await store.commit(newer, Batch(73, assigned=[assign(1, 2 + ATTEMPTS.least), assign(2, 2)]))
    assert receipt.refused == []
    await store.settle_restore(newer)
    assert not (await store.load()).restored
    await store.note(ROOT, "node.undrain", "n1", "", "", 74)
    actions = [entry.action for entry in await store.audit_entries(AuditFilter())]
    assert actions == ["node.undrain", "node.drain"]
    await store.close()
    old = await SqliteStore.open(restored.kept_as)
    assert await old.last_seq() == seq
    await old.close()


async def test_if_the_file_before_cannot_be_read_the_numbers_jump(database: Path, tmp_path: Path) -> None:
    store = await SqliteStore.open(database)
    await store.submit([a_job()], 30)
    await store.close()
    back_up(database, tmp_path / "copy")
    await asyncio.to_thread(database.write_bytes, b"\0" * 10_000)
    restored = put_back(database, tmp_path / "copy", 60)
    assert (restored.forgotten, restored.changed) == ([], [])
    store = await SqliteStore.open(database)
    assert (await store.submit([a_job()], 70)).job_ids == [2 + JOB_IDS.after(30)]
    assert [task.attempts for task in (await store.load()).tasks] == [ATTEMPTS.least, 0]
    await store.close()


async def test_a_copy_that_is_put_back_twice_gives_out_nothing_twice(database: Path, tmp_path: Path) -> None:
    store = await SqliteStore.open(database)
    await store.submit([a_job()], 1_000)
    await store.close()
    back_up(database, tmp_path / "copy")
    lives = []
    for at_ms in (61_000, 62_000):
        await asyncio.to_thread(database.write_bytes, b"\0" * 10_000)
        restored = put_back(database, tmp_path / "copy", at_ms)
        lives.append((restored.epoch, *await what_comes_next(await SqliteStore.open(database))))
    (epoch, job_id, seq, tried), later = lives
    assert later == (epoch + 10, job_id + 20_000, seq + 200_000, tried + 2)


async def test_tasks_that_get_rows_later_have_names_of_their_own(database: Path, tmp_path: Path) -> None:
    store = await SqliteStore.open(database)
    await a_series_without_all_rows(store)
    await store.close()
    back_up(database, tmp_path / "copy")
    put_back(database, tmp_path / "copy", time.time_ns() // 1_000_000)
    await check_names_of_later_rows(await SqliteStore.open(database))


async def test_tasks_that_get_rows_later_have_names_of_their_own_in_a_database(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await a_series_without_all_rows(store)
    await asyncio.to_thread(mark_restored, postgres_url)
    await check_names_of_later_rows(store)


async def a_series_without_all_rows(store: Store) -> None:
    now_ms = time.time_ns() // 1_000_000
    await store.submit([an_array(70)], now_ms)
    await store.cancel_tasks(1, IndexSet.of([66]), "ann", now_ms)


async def check_names_of_later_rows(store: Store) -> None:
    """They may have run since the copy was made. The sum of the job's tasks is written in between."""
    epoch = await store.claim()
    closed = TaskClosed(TaskId(1, 0), Happening.CANCELLED, Cause.CANCELLED, "")
    await store.commit(epoch, Batch(3, closed=[closed]))
    (grown,) = (await store.commit(epoch, Batch(4, grown=[Grown(1, 10)]))).grown
    tried = {task.task_id.task_index: task.attempts for task in grown.tasks}
    assert list(tried) == [64, 65, 67, 68, 69]
    assert min(tried.values()) >= ATTEMPTS.least
    skipped = (await store.tasks(1, TaskPaging()))[66]
    assert (skipped.status, skipped.attempts) == (Status.CANCELLED, 0)
    await store.close()


async def what_comes_next(store: Store) -> tuple[int, int, int]:
    """The numbers that the store gives to a job, to an event, and to an attempt of job 1."""
    (tried,) = [task.attempts for task in (await store.load()).tasks]
    (job_id,) = (await store.submit([a_job()], time.time_ns() // 1_000_000)).job_ids
    seq = await store.last_seq()
    await store.close()
    return job_id, seq, tried


async def test_what_cannot_be_put_back_leaves_everything_as_it_was(database: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    await (await SqliteStore.open(other, cluster_id="other")).close()
    store = await SqliteStore.open(database)
    await store.submit([a_job()], 30)
    with pytest.raises(StoreUnusableError, match="is in use by the server"):
        put_back(database, other, 60)
    await store.close()
    with pytest.raises(CopyError, match="of another cluster"):
        put_back(database, other, 60)
    noise = tmp_path / "noise"
    await asyncio.to_thread(noise.write_bytes, b"noise" * 1000)
    with pytest.raises(StoreUnusableError, match="is not a database"):
        put_back(database, noise, 60)
    with pytest.raises(CopyError, match="there is no"):
        put_back(database, tmp_path / "nothing", 60)
    assert {name for name in names_in(tmp_path) if "tgpu.db" in name} == {"tgpu.db", "tgpu.db.lock"}
    store = await SqliteStore.open(database)
    assert (await store.load()).tasks
    await store.close()
    assert put_back(database, other, 60, of_another=True).cluster_id == "other"


async def test_a_database_that_was_put_back_is_marked_unless_a_server_leads(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await store.submit([a_job()], time.time_ns() // 1_000_000 + 60_000)  # by a server whose clock is ahead
    await store.note(ROOT, "node.drain", "n1", "", "", 31)
    epoch = await store.campaign("s1", 60_000)
    assert epoch is not None
    with pytest.raises(StoreUnusableError, match=r"a server leads on .*: stop all servers first"):
        await asyncio.to_thread(mark_restored, postgres_url)
    await store.resign(epoch)
    counts_from = await asyncio.to_thread(mark_restored, postgres_url)
    assert (counts_from.epoch, counts_from.last_job_id) == (epoch + EPOCHS.least, 1 + JOB_IDS.least)
    world = await store.load()
    assert (world.restored, [task.attempts for task in world.tasks]) == (True, [ATTEMPTS.least])
    assert (await store.submit([a_job()], 70)).job_ids == [2 + JOB_IDS.least]
    await store.close()


async def test_a_dump_that_is_put_back_twice_gives_out_nothing_twice(postgres: PostgresServer) -> None:
    dump = postgres.new_database()
    store = await PostgresStore.open(postgres.url(dump))
    await store.submit([a_job()], time.time_ns() // 1_000_000 + 3_600_000)  # by a server whose clock is ahead
    await store.announce(ServerRow("s1", "", "1", "", 0))
    await store.close()
    lives = []
    for _ in range(2):
        database = postgres.new_database(template=dump)
        epoch = (await asyncio.to_thread(mark_restored, postgres.url(database))).epoch
        lives.append((epoch, *await what_comes_next(await PostgresStore.open(postgres.url(database)))))
        postgres.drop(database)
        await asyncio.sleep(1)
    postgres.drop(dump)
    first, second = lives
    assert all(later - earlier >= 1 for earlier, later in zip(first, second, strict=True)), lives
    assert second[1] - first[1] >= 20_000


async def test_only_the_leader_says_that_a_restore_is_settled(store: Store) -> None:
    epoch = await store.claim()
    await store.claim()
    with pytest.raises(DeposedError):
        await store.settle_restore(epoch)
