"""A private cluster for one benchmark: a real PostgreSQL that waits for the disk, and real servers on it."""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from installation import TGPU, wait_until
from tgpu.client import Client
from tgpu.client.errors import TgpuError
from tgpu.protocol import join_tokens, node_keys
from tgpu.store.cluster_port import JoinToken
from tgpu.store.postgres import PostgresStore

sys.path.append(str(Path(__file__).parents[1]))  # the tests know how to run a PostgreSQL
from tests.postgres_server import TEMPLATE, PostgresServer

_CPU_OF_PROCESS = 2
"""With a process's number it makes a clock of Linux: finer than the ticks in /proc."""
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "2GB", "fsync": "on", "synchronous_commit": "on"}
Nodes = Sequence[tuple[str, str]]
"""Their names and keys."""


class Server:
    """One `tgpu server` process."""

    def __init__(self, base: Path, name: str, store_url: str, settings: dict[str, str]) -> None:
        self.home = base / name
        self.home.mkdir()
        self.port = _free_port()
        scheme = "https" if settings.get("TGPU_TLS", "off") != "off" else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TGPU_")}
        environ = {**clean, "TGPU_HOME": str(self.home), "TGPU_STORE": store_url, **settings}
        words = [TGPU, "server", "--listen", f"127.0.0.1:{self.port}"]
        with (self.home / "output").open("wb") as output:
            self._process = subprocess.Popen(
                words, env=environ, cwd=base, stdout=output, stderr=output, start_new_session=True
            )
        self.is_running = True

    def client(self) -> Client:
        return Client(f"unix://{self.home}/run/tgpu.sock", timeout=300)

    @property
    def answers(self) -> bool:
        if self._process.poll() is not None:
            raise SystemExit(f"a server ended: {self.output[-2000:]}")
        try:
            with self.client() as client:
                return bool(client.whoami())
        except TgpuError:
            return False

    @property
    def output(self) -> str:
        return (self.home / "output").read_text(encoding="utf-8", errors="replace")

    @property
    def epoch(self) -> int:
        """The newest that it has won; 0 if none."""
        won = re.findall(r'"epoch": (\d+), "event": "leads from now on"', self.output)
        return int(won[-1]) if won else 0

    @property
    def is_compiled(self) -> bool:
        return "plans are made by compiled code from now on" in self.output

    @property
    def nodes_lost(self) -> int:
        return self.output.count('"state": "offline"')

    def cpu_s(self) -> float:
        """Of all its threads, since it began."""
        return time.clock_gettime(~self._process.pid << 3 | _CPU_OF_PROCESS)

    def memory_mb(self) -> dict[str, float]:
        lines = Path(f"/proc/{self._process.pid}/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
        kilobytes = {name: int(rest.split()[0]) for name, rest in (line.split(":") for line in lines)}
        return {name: kilobytes[name] * 1024 / 1e6 for name in ("Pss", "Rss")}

    def kill(self) -> float:
        """As a crash would; when, on CLOCK_MONOTONIC."""
        at = time.monotonic()
        self._process.kill()
        self._process.wait()
        self.is_running = False
        return at


class Cluster:
    """Servers on a database of their own, in which nodes have joined."""

    def __init__(self, base: Path, store_url: str, nodes: Nodes, *, servers: int, tls: bool) -> None:
        self.store_url, self.nodes = store_url, nodes
        settings = {"TGPU_SHARED_PATHS": "/", **({"TGPU_TLS": "auto"} if tls else {})}
        self.servers = [Server(base, f"s{number}", store_url, settings) for number in range(servers)]
        for server in self.servers:
            wait_until(lambda server=server: server.answers, f"{server.home.name} answers")
        wait_until(lambda: any(server.epoch for server in self.servers), "somebody leads")
        self.ca_pem: str | None = None
        if tls:
            with self.leader.client() as client:
                self.ca_pem = client.authority()

    @property
    def urls(self) -> list[str]:
        return [server.url for server in self.servers]

    @property
    def leader(self) -> Server:
        return max(self.servers, key=lambda server: server.epoch)

    def follower(self) -> Server:
        return next(server for server in self.servers if server.is_running and server is not self.leader)

    def query(self, statement: str) -> list[tuple[int, ...]]:
        with psycopg.connect(self.store_url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    def count(self, statement: str) -> int:
        return self.query(statement)[0][0]

    def remove(self) -> None:
        for server in self.servers:
            if server.is_running:
                server.kill()


class Database:
    """One PostgreSQL for a whole run; every cluster gets a copy of a store in which all nodes have joined."""

    def __init__(self, base: Path, nodes: int) -> None:
        self._base, folder = base, base / "postgres"
        folder.mkdir(mode=0o755)
        self._server = PostgresServer(folder, **SETTINGS)
        self._server.start()
        self._server.make_template()
        self.nodes = asyncio.run(_enrol(self._server.url(TEMPLATE), nodes))
        self._clusters = 0

    @property
    def floor_url(self) -> str:
        """Of a database that is no store."""
        return self._server.url("postgres")

    @contextmanager
    def cluster(self, *, servers: int = 1, tls: bool = False) -> Iterator[Cluster]:
        self._clusters += 1
        base = self._base / f"cluster-{self._clusters}"
        base.mkdir()
        name = self._server.new_database()
        made = Cluster(base, self._server.url(name), self.nodes, servers=servers, tls=tls)
        try:
            yield made
        finally:
            made.remove()
            self._server.drop(name)

    def stop(self) -> None:
        self._server.stop()


@contextmanager
def a_database(nodes: int) -> Iterator[Database]:
    """Gone afterwards, with all it kept. On a disk: what is answered has been waited for."""
    base = Path(tempfile.mkdtemp(prefix="tgpu-bench-"))
    base.chmod(0o755)
    try:
        database = Database(base, nodes)
        try:
            yield database
        finally:
            database.stop()
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def _enrol(store_url: str, count: int) -> Nodes:
    """Straight through the store, by one token that is good for any number of nodes."""
    store = await PostgresStore.open(store_url)
    try:
        digest = join_tokens.digest_of(join_tokens.new_secret())
        await store.create_join_token(JoinToken(0, digest, "bench", "root", 0, None, uses_left=None))
        nodes = [(f"n{number:05d}", node_keys.new_key()) for number in range(count)]
        for node_id, key in nodes:
            await store.enrol(digest, node_id, node_keys.digest_of(key), 0)
        return nodes
    finally:
        await store.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        return int(holder.getsockname()[1])
