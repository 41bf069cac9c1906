"""Where exactness is proved: three servers on PostgreSQL, and one on a file; real processes, real agents."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.end_to_end.cluster.whole_cluster import Cluster
from tests.end_to_end.quota import watch
from tests.end_to_end.whole_tgpu import Installation
from tests.postgres_server import QUICK, a_server
from tgpu.client import Client
from tgpu.store.port import Store
from tgpu.store.postgres import PostgresStore
from tgpu.store.quota_port import Discrepancy
from tgpu.store.sqlite import SqliteStore


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    homes: Sequence[Path]
    """Of the servers."""
    files: Path
    """Where jobs run."""
    database: watch.Database
    stop_servers: Callable[[], None]
    open_store: Callable[[], Awaitable[Store]]

    @property
    def sockets(self) -> list[Path]:
        return [home / "run" / "tgpu.sock" for home in self.homes]

    def client(self, at: int = 0) -> Client:
        return Client(f"unix://{self.sockets[at]}")

    def recount(self) -> list[Discrepancy]:
        """What the ledger's own audit finds, once the servers have been killed where they stood."""
        self.stop_servers()

        async def recounted() -> list[Discrepancy]:
            store = await self.open_store()
            try:
                return await store.recount(await store.claim())
            finally:
                await store.close()

        return asyncio.run(recounted())


def _a_folder() -> Path:
    base = Path(tempfile.mkdtemp(prefix="tgpu-", dir="/tmp"))
    base.chmod(0o755)
    return base


@contextmanager
def three_servers() -> Iterator[Place]:
    with a_server(**QUICK) as server:
        url = server.url(server.new_database())
        cluster = Cluster(_a_folder(), url, agents=2)

        def stop_servers() -> None:
            for part in cluster.servers:
                part.kill()

        try:
            cluster.up(cpus=16, gpus=4)
            with watch.postgres(url) as database:
                yield Place(
                    "PostgreSQL",
                    [part.home for part in cluster.servers],
                    cluster.files,
                    database,
                    stop_servers,
                    lambda: PostgresStore.open(url),
                )
                assert database.query("SELECT deadlocks FROM pg_stat_database WHERE deadlocks > 0") == []
        finally:
            cluster.remove()


@contextmanager
def one_server() -> Iterator[Place]:
    one = Installation(_a_folder() / "home")
    try:
        one.up()
        with watch.sqlite(one.home / "tgpu.db") as database:
            yield Place(
                "SQLite",
                [one.home],
                one.files,
                database,
                lambda: one.kill("server"),
                lambda: SqliteStore.open(one.home / "tgpu.db"),
            )
    finally:
        one.remove()
