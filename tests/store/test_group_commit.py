"""Writes that share a commit: each is answered for itself, none before the disk has it."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from tests.store.store_story import a_job
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import StoreUnavailableError, Submitted, UnknownTenantError
from tgpu.store.sqlite import SqliteStore

SUBMIT_UNTIL_KILLED = """
import asyncio, sys, pathlib
sys.path.insert(0, sys.argv[2])
from tests.store.store_story import a_job
from tgpu.store.sqlite import SqliteStore

async def submit(store):
    while True:
        print((await store.submit([a_job()], 1)).job_ids[0], flush=True)

async def main():
    store = await SqliteStore.open(pathlib.Path(sys.argv[1]))
    await asyncio.gather(*(submit(store) for _ in range(8)))

asyncio.run(main())
"""


async def test_one_that_fails_does_not_harm_those_it_shares_a_commit_with(database: Path) -> None:
    store = await SqliteStore.open(database)
    held = threading.Event()
    blocker = asyncio.ensure_future(store._write(lambda _: held.wait()))
    await asyncio.sleep(0.05)
    commits = 0

    def count(statement: str) -> None:
        nonlocal commits
        commits += statement == "COMMIT"

    work = [
        asyncio.ensure_future(store.submit([a_job(tenant_id="nobody" if number % 3 == 1 else "default")], 1))
        for number in range(9)
    ]
    await asyncio.sleep(0.05)
    store._writer._driver.connection.set_trace_callback(count)
    held.set()
    answers = await asyncio.gather(*work, return_exceptions=True)
    await blocker
    assert [type(answer) for answer in answers] == [Submitted, UnknownTenantError, Submitted] * 3
    assert [job.job_id for job in await store.jobs(JobFilter(), Paging())] == [6, 5, 4, 3, 2, 1]
    assert commits == 2  # the blocker's, and one for all nine
    await store.close()


async def test_a_mistake_in_one_request_is_its_own(database: Path) -> None:
    store = await SqliteStore.open(database)
    good, bad = await asyncio.gather(
        store.submit([a_job()], 1), store.submit([a_job(priority=2**70)], 1), return_exceptions=True
    )
    assert good == Submitted([1])
    assert isinstance(bad, OverflowError)
    assert await store.submit([a_job()], 2) == Submitted([2])
    await store.close()


async def test_a_caller_that_went_away_harms_nobody(database: Path) -> None:
    store = await SqliteStore.open(database)
    gone = asyncio.ensure_future(store.submit([a_job()], 1))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await store.submit([a_job()], 1)).job_ids[0] in (1, 2)
    await store.close()


def test_a_store_outlives_the_loop_it_was_opened_on(database: Path) -> None:
    store = asyncio.run(SqliteStore.open(database))
    assert uvloop.run(store.submit([a_job()], 1)) == Submitted([1])
    assert asyncio.run(store.last_seq()) == 1
    uvloop.run(store.close())


def test_what_was_answered_survives_a_kill(database: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SUBMIT_UNTIL_KILLED, database, Path(__file__).parent],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    answered = [int(process.stdout.readline()) for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    answered += [int(line) for line in process.stdout.read().splitlines() if line]
    process.wait()
    process.stdout.close()

    async def look() -> set[int]:
        store = await SqliteStore.open(database)
        kept = {job.job_id for job in await store.jobs(JobFilter(), Paging(100_000))}
        assert len(await store.events(limit=100_000)) == len(kept)
        await store.close()
        return kept

    assert set(answered) <= asyncio.run(look())


async def fill_up(store: SqliteStore) -> int:
    """Submits until nothing more fits; returns how many jobs were taken."""
    taken = 0
    with pytest.raises(StoreUnavailableError, match="is full: free some room there and try again; nothing"):  # noqa: PT012  the loop is the story
        while True:
            answers = await asyncio.gather(
                *(store.submit([a_job(name="x" * 2000)] * 5, 1) for _ in range(4)), return_exceptions=True
            )
            taken += 5 * sum(isinstance(answer, Submitted) for answer in answers)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
    return taken


async def test_a_full_database_refuses_whole_requests_and_recovers(database: Path) -> None:
    store = await SqliteStore.open(database)
    store._writer._driver.connection.execute("PRAGMA max_page_count = 100")
    taken = await fill_up(store)
    assert len(await store.jobs(JobFilter(), Paging(100_000))) == taken
    store._writer._driver.connection.execute("PRAGMA max_page_count = 100000")
    assert (await store.submit([a_job()], 2)).job_ids == [taken + 1]
    assert await store.last_seq() == taken + 1
    await store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = os.geteuid() == 0 and not subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False, capture_output=True
    ).returncode  # fmt: skip
    if not mounted:
        pytest.skip("mounting a small disk needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


async def test_a_full_disk_refuses_whole_requests_and_recovers(database: Path, small_disk: Path) -> None:
    (small_disk / "ballast").write_bytes(b"x" * 600_000)
    path = Path(shutil.copy(database, small_disk))
    store = await SqliteStore.open(path)
    taken = await fill_up(store)
    assert len(await store.jobs(JobFilter(), Paging(100_000))) == taken
    (small_disk / "ballast").unlink()
    assert (await store.submit([a_job()], 2)).job_ids == [taken + 1]
    await store.close()
    again = await SqliteStore.open(path)
    assert len(await again.jobs(JobFilter(), Paging(100_000))) == taken + 1
    await again.close()


class FailingCommit:
    """A connection whose next COMMIT, apart from those it spares, meets an I/O error."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self.fails, self.spares = connection, False, 0

    def execute(self, statement: str) -> object:
        if statement == "COMMIT" and self.fails and self.spares:
            self.spares -= 1
        elif statement == "COMMIT" and self.fails:
            self.fails = False
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
            raise error
        return self._connection.execute(statement)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


async def test_nobody_is_answered_when_the_commit_fails(database: Path) -> None:
    store = await SqliteStore.open(database)
    failing = FailingCommit(store._writer._driver.connection)
    store._writer._driver.connection = failing  # type: ignore[assignment]
    failing.fails = True
    with pytest.raises(StoreUnavailableError, match="reports an error: look at the kernel log"):
        await store.submit([a_job()], 1)
    assert await store.last_seq() == 0
    assert await store.submit([a_job()], 2) == Submitted([1])
    await store.close()


async def test_a_refusal_in_a_commit_that_fails_is_not_believed(database: Path) -> None:
    """What it saw was undone with the rest: the caller must ask again."""
    store = await SqliteStore.open(database)
    failing = FailingCommit(store._writer._driver.connection)
    store._writer._driver.connection = failing  # type: ignore[assignment]
    held = threading.Event()
    blocker = asyncio.ensure_future(store._write(lambda _: held.wait()))
    await asyncio.sleep(0.05)
    work = [asyncio.ensure_future(store.submit([a_job(tenant_id=name)], 1)) for name in ("default", "nobody")]
    await asyncio.sleep(0.05)
    failing.fails, failing.spares = True, 1  # the blocker's goes through
    held.set()
    await blocker
    answers = await asyncio.gather(*work, return_exceptions=True)
    assert [type(answer) for answer in answers] == [StoreUnavailableError] * 2
    with pytest.raises(UnknownTenantError):
        await store.submit([a_job(tenant_id="nobody")], 1)
    await store.close()


async def test_a_refusal_that_is_alone_needs_no_commit(database: Path) -> None:
    store = await SqliteStore.open(database)
    failing = FailingCommit(store._writer._driver.connection)
    store._writer._driver.connection = failing  # type: ignore[assignment]
    failing.fails = True
    with pytest.raises(UnknownTenantError):
        await store.submit([a_job(tenant_id="nobody")], 1)
    failing.fails = False
    assert await store.submit([a_job()], 1) == Submitted([1])
    await store.close()
