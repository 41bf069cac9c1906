"""A database file on a disk that fills up, and has room again."""

import shutil
import sqlite3
from pathlib import Path

import pytest
from psycopg import errors

from tests.small_disk import SmallDisk, needs_root
from tests.store.store_story import a_job
from tgpu.store.port import StoreFullError, StoreUnavailableError
from tgpu.store.postgres_address import PostgresAddress
from tgpu.store.postgres_errors import unavailable
from tgpu.store.sqlite import SqliteStore
from tgpu.store.sqlite_file import connect_to_write

LARGE = "x" * 50_000
RESERVE = 4 << 20


@pytest.fixture
def on_small_disk(fresh_file: Path, small_disk: SmallDisk) -> Path:
    return Path(shutil.copy(fresh_file, small_disk.path / "tgpu.db"))


def _size(path: Path) -> int:
    return path.stat().st_size


@needs_root
async def test_full_disk_refuses_submissions_and_takes_them_again_when_there_is_space(
    on_small_disk: Path,
    small_disk: SmallDisk,
) -> None:
    store = await SqliteStore.open(on_small_disk)
    await store.submit([a_job()], 1)
    small_disk.fill()
    with pytest.raises(StoreFullError, match="is full: free some room there"):
        await store.submit([a_job(name=LARGE) for _ in range(20)], 2)
    last = await store.last_seq()
    small_disk.empty()
    submitted = await store.submit([a_job()], 3)
    assert await store.last_seq() == last + 1
    assert (await store.job(submitted.job_ids[0])) is not None
    await store.close()


@needs_root
async def test_reserve_lets_a_job_be_cancelled_on_a_full_disk(
    on_small_disk: Path,
    small_disk: SmallDisk,
) -> None:
    store = await SqliteStore.open(on_small_disk)
    for _ in range(40):  # each makes the log longer
        await store.submit([a_job()], 1)
    store.keep_reserve(RESERVE)
    small_disk.fill()
    assert small_disk.free == 0
    for job_id in range(1, 21):
        await store.request_cancel([job_id], "ann", 2)
    job = await store.job(20)
    assert job is not None
    assert job.cancel_by == "ann"
    await store.close()
    connection = connect_to_write(on_small_disk)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@needs_root
async def test_reserve_is_not_counted_as_part_of_the_database(
    on_small_disk: Path,
    small_disk: SmallDisk,
) -> None:
    store = await SqliteStore.open(on_small_disk)
    size, free = _size(on_small_disk), small_disk.free
    store.keep_reserve(RESERVE)
    assert _size(on_small_disk) == size
    taken = free - small_disk.free
    assert taken > 0
    store.keep_reserve(RESERVE)
    assert free - small_disk.free == taken
    await store.close()


@needs_root
async def test_store_that_cannot_be_founded_on_a_full_disk_can_be_founded_later(
    small_disk: SmallDisk,
) -> None:
    small_disk.fill()
    with pytest.raises(StoreFullError):
        await SqliteStore.open(small_disk.path / "new.db")
    small_disk.empty()
    store = await SqliteStore.open(small_disk.path / "new.db")
    assert (await store.submit([a_job()], 1)).job_ids == [1]
    await store.close()


async def test_one_io_error_fails_one_transaction_and_no_other(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await SqliteStore.open(database)
    driver = store._writer._driver
    commit, failures = driver.commit, [sqlite3.SQLITE_IOERR | (4 << 8)]

    def commit_or_fail(*, wakes: bool) -> None:
        if failures:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = failures.pop()
            raise error
        commit(wakes=wakes)

    monkeypatch.setattr(driver, "commit", commit_or_fail)
    with pytest.raises(StoreUnavailableError, match="reports an error"):
        await store.submit([a_job()], 1)
    assert (await store.submit([a_job()], 2)).job_ids == [1]
    await store.close()


def test_full_disk_of_postgresql_is_told_apart_from_a_database_that_is_away() -> None:
    address = PostgresAddress.parse("postgresql://ann@db.example/tgpu")
    full = unavailable(errors.DiskFull("could not extend file"), address)
    assert isinstance(full, StoreFullError)
    assert "free some room" in full.why
    assert not isinstance(unavailable(errors.AdminShutdown("going down"), address), StoreFullError)
