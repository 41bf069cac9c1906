"""Stores to test on: every test that asks for `store` runs on each kind, and may be a coroutine."""

import asyncio
import inspect
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import postgres, postgres_url  # noqa: F401  fixtures are found by their names
from tests.small_disk import small_disk  # noqa: F401  the same
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Store
from tgpu.store.postgres import PostgresStore
from tgpu.store.sqlite import SqliteStore


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def fresh_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new database: copying it is faster than migrating another one."""
    path = tmp_path_factory.mktemp("fresh") / "fresh.db"

    async def make() -> None:
        await (await SqliteStore.open(path, cluster_id="c")).close()

    asyncio.run(make())
    return path


@pytest.fixture
def database(fresh_file: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(fresh_file, tmp_path / "tgpu.db"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore("c")
        return
    opened: Store
    if request.param == "sqlite":
        opened = asyncio.run(SqliteStore.open(request.getfixturevalue("database")))
    else:
        opened = asyncio.run(PostgresStore.open(request.getfixturevalue("postgres_url")))
    yield opened
    asyncio.run(opened.close())
