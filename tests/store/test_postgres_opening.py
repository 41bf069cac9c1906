"""What can be wrong with a PostgreSQL database, and what is said then; how it is made ready."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from tests.postgres_server import CLUSTER, PASSWORD, QUICK, TEMPLATE, PostgresServer, a_server
from tests.store.store_story import ROOT, a_job, running
from tgpu.domain.tenant import Tenant
from tgpu.store import postgres_schema, revision, tables
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.migrations.upgrade import configuration
from tgpu.store.opening import open_store
from tgpu.store.port import StoreUnavailableError, StoreUnusableError, Submitted
from tgpu.store.postgres import PostgresStore
from tgpu.store.sqlite import SqliteStore


@pytest.fixture
def empty(postgres: PostgresServer) -> Iterator[str]:
    """The name of an empty database."""
    name = postgres.new_database("template0")
    yield name
    postgres.drop(name)


async def refusal(url: str, kind: type[Exception] = StoreUnusableError) -> str:
    with pytest.raises(kind) as refused:
        await PostgresStore.open(url)
    chain = [refused.value, refused.value.__cause__, refused.value.__context__]
    assert all(PASSWORD not in f"{error!r} {error}" for error in chain)
    return re.sub(r"127\.0\.0\.1:\d+", "HOST", str(refused.value))


async def test_an_empty_database_is_founded_and_keeps_its_id(postgres: PostgresServer, empty: str) -> None:
    first = await PostgresStore.open(postgres.url(empty), cluster_id="mine")
    await first.submit([a_job()], 1)
    await first.close()
    again = await PostgresStore.open(postgres.url(empty), cluster_id="other")
    assert again.cluster_id == "mine"
    assert len(await again.jobs(JobFilter(), Paging())) == 1
    await again.close()


async def test_servers_that_start_at_once_found_one_store(postgres: PostgresServer, empty: str) -> None:
    stores = await asyncio.gather(*(PostgresStore.open(postgres.url(empty)) for _ in range(4)))
    assert len({store.cluster_id for store in stores}) == 1
    assert [tenant.tenant_id for tenant in await stores[3].tenants()] == ["default"]
    for store in stores:
        await store.close()


def test_a_migrated_database_has_exactly_the_tables_of_the_program(postgres_url: str) -> None:
    engine = create_engine(postgres_url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    engine.dispose()


def test_names_are_sorted_by_code_whatever_the_language_of_the_database(
    postgres: PostgresServer, postgres_url: str
) -> None:
    rows = postgres.execute(
        "SELECT DISTINCT table_name FROM information_schema.columns WHERE table_schema = 'public'"
        " AND collation_name = 'C'"
        " ORDER BY table_name",
        postgres_url.rpartition("/")[2],
    )
    assert rows == [
        ("members",),
        ("nodes",),
        ("quota_lines",),
        ("servers",),
        ("tenants",),
        ("user_secrets",),
    ]


def test_an_up_to_date_database_opens_without_alembic(postgres_url: str) -> None:
    code = (
        "import asyncio, sys; from tgpu.store.opening import open_store\n"
        "async def main(): await (await open_store(sys.argv[1])).close()\n"
        "asyncio.run(main()); print('alembic' in sys.modules)"
    )
    command = [sys.executable, "-c", code, postgres_url]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


async def test_a_newer_database_that_allows_it_is_used(postgres: PostgresServer, postgres_url: str) -> None:
    """A newer server has added a column and a table, and nothing that this one would have to know."""
    name = postgres_url.rpartition("/")[2]
    postgres.execute("ALTER TABLE jobs ADD COLUMN colour text DEFAULT 'red' NOT NULL", name)
    postgres.execute("CREATE TABLE colours (name text)", name)
    postgres.execute("UPDATE alembic_version SET version_num = '9999'", name)
    store = await PostgresStore.open(postgres_url)
    await running(store)
    await store.close()
    postgres.execute("UPDATE compatibility SET oldest_server = '9998'", name)
    assert await refusal(postgres_url) == (
        f"postgresql://tgpu@HOST/{name} was written by a newer version of tgpu (revision 9999): install that"
        " version"
        " or a newer one"
    )


async def test_a_server_of_the_oldest_revision_that_may_works_on_the_new_tables(
    postgres_url: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite3.connect(database) as connection:
        (oldest,) = connection.execute("SELECT oldest_server FROM compatibility").fetchone()
    connection.close()
    assert oldest == revision.OLDEST_BESIDE
    monkeypatch.setattr(revision, "HEAD", f"{int(oldest) - 1:04}")
    for where in (postgres_url, database):
        with pytest.raises(StoreUnusableError, match="was written by a newer version of tgpu"):
            await open_store(where)
    monkeypatch.setattr(revision, "HEAD", oldest)
    for where in (postgres_url, database):
        store = await open_store(where)
        await running(store)
        await store.create_tenant(Tenant("lab"), ROOT, 1)
        assert (await store.load()).seq == 3
        await store.close()


async def test_tables_are_not_taken_from_under_older_servers_that_would_do_harm(
    postgres: PostgresServer, empty: str
) -> None:
    engine = create_engine(postgres.url(empty).replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        config = configuration()
        config.attributes["connection"] = connection
        command.upgrade(config, f"{int(revision.OLDEST_BESIDE) - 1:04}")
    engine.dispose()
    postgres.execute(
        "INSERT INTO servers (server_id, url, version, config_digest, started_ms, seen_ms) VALUES"
        " ('s1', 'https://gpu1:7480', '', '', 0, EXTRACT(EPOCH FROM now()) * 1000),"
        " ('s2', 'https://gone:7480', '', '', 0, EXTRACT(EPOCH FROM now()) * 1000 - 60000)",
        empty,
    )
    said = await refusal(postgres.url(empty), StoreUnavailableError)
    assert "servers of an older version work on" in said
    assert "(https://gpu1:7480), and this one cannot work beside them: stop all of them" in said
    with pytest.raises(StoreUnavailableError, match="servers of an older version"):
        postgres_schema.look(postgres.url(empty))
    postgres.execute("DELETE FROM servers WHERE server_id = 's1'", empty)
    assert postgres_schema.look(postgres.url(empty))[1] == f"{int(revision.OLDEST_BESIDE) - 1:04}"
    await (await PostgresStore.open(postgres.url(empty))).close()
    assert postgres.execute("SELECT version_num FROM alembic_version", empty) == [(revision.HEAD,)]


async def test_a_newer_file_that_allows_it_is_used(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    store = await SqliteStore.open(database)
    assert await store.submit([a_job()], 1) == Submitted([1])
    await store.close()


async def test_the_database_of_another_program_is_left_alone(postgres: PostgresServer, empty: str) -> None:
    postgres.execute("CREATE TABLE songs (title text)", empty)
    said = (
        f"postgresql://tgpu@HOST/{empty} is the database of another program: create one for tgpu alone with"
        " createdb,"
        " and name that one"
    )
    assert await refusal(postgres.url(empty)) == said
    postgres.execute("CREATE TABLE alembic_version (version_num text)", empty)
    assert await refusal(postgres.url(empty)) == said
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", empty) == [(2,)]


async def test_who_may_not_come_in_is_told_why(postgres: PostgresServer, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    assert await refusal(postgres.url(name, password="wrong")) == (
        f"postgresql://tgpu@HOST/{name} refuses the user 'tgpu' or its password: check both in the"
        " database's address"
    )
    assert await refusal(f"postgresql://tgpu@127.0.0.1:{postgres.port}/{name}") == (
        f"postgresql://tgpu@HOST/{name} asks for a password: write it into the database's address, or name a"
        " file with"
        " it in PGPASSFILE"
    )
    assert await refusal(postgres.url("nowhere")) == (
        "there is no database 'nowhere' at postgresql://tgpu@HOST/nowhere: create it with createdb, or name"
        " another"
    )


async def test_who_may_not_create_tables_is_told_so(postgres: PostgresServer, empty: str) -> None:
    postgres.execute(f"CREATE ROLE guest LOGIN PASSWORD '{PASSWORD}'")
    try:
        said = await refusal(postgres.url(empty, user="guest"))
    finally:
        postgres.execute("DROP ROLE guest")
    assert f"make it the owner of the database with ALTER DATABASE {empty} OWNER TO guest" in said


async def test_a_server_that_is_not_there_may_come() -> None:
    nowhere = f"postgresql://tgpu:{PASSWORD}@nowhere.invalid/x"
    assert "nowhere.invalid/x cannot be reached" in await refusal(nowhere, StoreUnavailableError)
    refused = f"postgresql://tgpu:{PASSWORD}@127.0.0.1:1/x"
    assert "check that PostgreSQL runs" in await refusal(refused, StoreUnavailableError)


async def test_an_old_server_is_refused(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_schema, "OLDEST_SERVER", 99)
    assert (await refusal(postgres_url)).endswith("is PostgreSQL 18: tgpu needs 99 or newer")


async def test_a_database_that_cannot_keep_every_letter_is_refused(postgres: PostgresServer) -> None:
    postgres.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    try:
        said = await refusal(postgres.url("ascii"))
    finally:
        postgres.drop("ascii")
    assert "keeps text as SQL_ASCII: create a database with createdb --encoding=UTF8" in said


def test_a_standby_is_refused() -> None:
    with a_server(**QUICK) as server:
        server.stop()
        server.make_standby()
        server.start()
        assert asyncio.run(refusal(server.url(TEMPLATE))) == (
            f"postgresql://tgpu@HOST/{TEMPLATE} is a standby and cannot be written: name the primary, or list"
            " all hosts and add target_session_attrs=read-write"
        )


@pytest.mark.parametrize(
    "url", [f"postgresql://tgpu:{PASSWORD}@host:port/x", f"postgresql://tgpu:{PASSWORD}@h/x?no={PASSWORD}"]
)
async def test_an_address_that_makes_no_sense_is_not_repeated(url: str) -> None:
    assert "write postgresql://user:password@host:5432/name" in await refusal(url)


def test_an_address_names_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def open_and_close(where: str | Path) -> None:
        await (await open_store(where)).close()

    for where in (
        str(tmp_path / "a.db"),
        tmp_path / "b.db",
        f"sqlite:///{tmp_path}/c%20d.db",
        "sqlite:///e.db",
    ):
        asyncio.run(open_and_close(where))
    assert {path.name for path in tmp_path.glob("*.db")} == {"a.db", "b.db", "c d.db", "e.db"}


async def test_an_address_names_a_database(postgres_url: str) -> None:
    opened = await open_store(postgres_url.replace("postgresql://", "postgres://"))
    assert isinstance(opened, PostgresStore)
    assert opened.cluster_id == CLUSTER
    await opened.close()


@pytest.mark.parametrize("url", ["mysql://h/x", "http://h"])
async def test_an_unknown_kind_of_database_is_told_what_is_known(url: str) -> None:
    with pytest.raises(
        StoreUnusableError, match="write a path, sqlite:///path or postgresql://user@host/name"
    ):
        await open_store(url)
    with pytest.raises(StoreUnusableError, match="names no file"):
        await open_store("sqlite://")


async def test_signs_that_postgresql_cannot_keep_are_shown_as_such(postgres_url: str) -> None:
    store = await PostgresStore.open(postgres_url)
    await store.submit([a_job(name="a\0b")], 1)
    await store.submit([a_job(name="ü\\u0000"), a_job(name="c\0")], 1)
    names = [job.spec.name for job in await store.jobs(JobFilter(name_contains="\ufffd"), Paging())]
    assert names == ["c\0", "a\0b"]
    assert [job.job_id for job in await store.jobs(JobFilter(name_contains="\\u0000"), Paging())] == [2]
    await store.close()
