"""Many submitters against a tenant's limit and its parent's: nothing that is ever committed is over a limit,
and everything adds up at any moment."""

import asyncio
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Thread

import psycopg
import pytest

from tests.postgres_server import PostgresServer
from tests.store.ledger_crowd import LOOK_AT_POSTGRES, LOOK_AT_SQLITE, check_moment, crowd, found, lead
from tests.store.ledger_story import check_exact
from tgpu.store.port import Store
from tgpu.store.postgres import PostgresStore
from tgpu.store.sqlite import SqliteStore

Rows = list[tuple[int | str | None, ...]]


class Onlooker:
    """Looks at every moment it can get hold of, on a connection of its own."""

    def __init__(self, look: Callable[[], Rows]) -> None:
        self._look, self._stop = look, Event()
        self.looks = 0
        self.wrong: list[str] = []
        self._thread = Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.is_set():
            rows = self._look()
            try:
                check_moment(rows)
            except AssertionError as error:
                self.wrong.append(f"{error}: {rows}")
            self.looks += 1

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


async def watched(
    store: Store, epoch: int, look: Callable[[], Rows], busy: Callable[[], asyncio.Future[Counter[str]]]
) -> None:
    onlooker, stop = Onlooker(look), asyncio.Event()
    leading = asyncio.ensure_future(lead(store, epoch, Random(7), stop))
    answers = await busy()
    stop.set()
    seen = await leading
    onlooker.end()
    assert onlooker.wrong == []
    assert onlooker.looks > 5
    await check_exact(store)
    assert await store.recount(epoch) == []
    # A crowd that meets no limit proves nothing.
    assert answers["taken"] > 20
    assert answers["gpu_milli"] > 5
    assert {"assigned", "succeeded", "preempted", "lost", "cancelled"} <= seen.keys()
    assert seen["refused"]
    assert seen["burst"]


async def test_three_servers_and_sixty_four_submitters(postgres_url: str, postgres: PostgresServer) -> None:
    store = await PostgresStore.open(postgres_url)
    await found(store)
    epoch = await store.claim()

    async def others() -> Counter[str]:
        here = Path(__file__).parents[2]
        servers = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.store.ledger_crowd", postgres_url, str(seed), users, "6"),
                cwd=here,
                stdout=subprocess.PIPE,
            )
            for seed, users in enumerate(("22", "21", "21"))
        ]
        said = [await server.communicate() for server in servers]
        assert [server.returncode for server in servers] == [0, 0, 0]
        answers: Counter[str] = Counter()
        for word in b" ".join(out for out, _ in said).decode().split():
            name, _, count = word.partition("=")
            answers[name] += int(count)
        return answers

    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def look() -> Rows:
            return connection.execute(LOOK_AT_POSTGRES.encode()).fetchall()

        await watched(store, epoch, look, lambda: asyncio.ensure_future(others()))
    await store.close()
    name = postgres_url.rpartition("/")[2]
    assert postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'") == [(0,)]


@pytest.mark.parametrize("seed", range(2))
async def test_sixteen_submitters_on_one_file(database: Path, seed: int) -> None:
    store = await SqliteStore.open(database)
    await found(store)
    epoch = await store.claim()
    connection = sqlite3.connect(database, check_same_thread=False)

    def look() -> Rows:
        return connection.execute(LOOK_AT_SQLITE).fetchall()

    await watched(store, epoch, look, lambda: asyncio.ensure_future(crowd(store, seed, 16, 40)))
    connection.close()
    await store.close()
