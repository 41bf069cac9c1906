import re
import sqlite3
from dataclasses import replace
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from tests.postgres_server import PostgresServer
from tests.store.store_story import ROOT, a_job, setting
from tgpu.domain.quota import Amounts, JobUse
from tgpu.domain.tenant import Tenant
from tgpu.store import tables
from tgpu.store.cluster_port import Leader
from tgpu.store.migrations.upgrade import configuration
from tgpu.store.port import Store
from tgpu.store.postgres import PostgresStore
from tgpu.store.revision import HEAD
from tgpu.store.sql import codec
from tgpu.store.sqlite import SqliteStore


def parts(sql: str) -> tuple[str, list[str], str]:
    """A column that was added later stands elsewhere, and otherwise indented."""
    start, _, rest = " ".join(sql.split()).partition("(")
    body, _, tail = rest.rpartition(")")
    return start, sorted(part.strip() for part in re.split(r",(?![^()]*\))", body)), tail


def schema(path: Path) -> dict[str, tuple[str, list[str], str]]:
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND type <> 'trigger'"
    ).fetchall()
    connection.close()
    return {name: parts(sql) for name, sql in rows if name != "alembic_version"}


def test_a_migrated_file_has_exactly_the_tables_of_the_program(database: Path, tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'made.db'}")
    tables.metadata.create_all(engine)
    engine.dispose()
    assert schema(database) == schema(tmp_path / "made.db")


def test_alembic_sees_no_difference_either(database: Path) -> None:
    engine = create_engine(f"sqlite:///{database}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), tables.metadata) == []
    engine.dispose()


async def test_a_file_of_the_first_revision_keeps_its_tenants_and_tells_of_later_changes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{path}")
    config = configuration()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql("INSERT INTO meta VALUES (1, 'c', 4)")
        connection.exec_driver_sql("INSERT INTO counters VALUES (1, 0, 0)")
        connection.exec_driver_sql(
            "INSERT INTO tenants (tenant_id, weight, version) VALUES ('default', 7, 3)"
        )
    engine.dispose()
    store = await SqliteStore.open(path)
    assert (await store.load()).tenants == [Tenant("default", 7, version=3)]
    assert (await store.changes(0)).tenants == []
    await store.update_tenant("default", setting(weight=8), ROOT, 1)
    assert (await store.changes(0)).tenants == [Tenant("default", 8, version=4)]
    assert await store.leader() is None
    assert await store.campaign("s1", 60_000) == 5
    assert await store.leader() == Leader("s1", 5, alive=True)
    await store.close()


def test_the_head_that_is_opened_without_alembic_is_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(configuration()).get_heads() == [HEAD]


def fill_0005(connection: Connection) -> None:
    """A database before there were counts: jobs that wait, run and are over, at three levels."""
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "0005")
    connection.execute(text("INSERT INTO meta (singleton, cluster_id, epoch) VALUES (1, 'c', 4)"))
    connection.execute(text("INSERT INTO counters VALUES (1, 6, 0)"))
    for name, jobs, gpus in (("default", 1, 0), ("lab", 4, 4), ("lab/a_b", 2, 2), ("lab/axb", 1, 1)):
        connection.execute(
            text(
                "INSERT INTO tenants (tenant_id, weight, version, cpu_milli_used, memory_mib_used,"
                " disk_mib_used, gpu_milli_used) VALUES (:name, 1, 1, :cpu, :memory, :disk, :gpu)"
            ),
            {"name": name, "cpu": 500 * jobs, "memory": 64 * jobs, "disk": 8 * jobs, "gpu": 1000 * gpus},
        )
    owners = ["lab", "lab/a_b", "lab/a_b", "lab/axb", "default", "lab"]
    statuses = ["pending", "running", "preempted", "scheduled", "running", "completed"]
    for job_id, (owner, status) in enumerate(zip(owners, statuses, strict=True), 1):
        spec = a_job(tenant_id=owner)
        (request,) = (group.request for group in spec.groups)
        if owner == "default":  # by memory alone: nothing was charged for its GPU
            request = replace(request, gpu_milli=0, gpu_memory_mib=4096)
        connection.execute(
            text(
                'INSERT INTO jobs (job_id, "user", tenant_id, name, priority_class, priority, requeue,'
                " submitted_ms, status, spec)"
                " VALUES (:job_id, 'ann', :owner, '', 'default', 0, :yes, :at_ms, :status, :spec)"
            ),
            {
                "job_id": job_id,
                "owner": owner,
                "yes": True,
                "at_ms": 100 + job_id,
                "status": status,
                "spec": codec.text_of(spec),
            },
        )
        connection.execute(
            text("INSERT INTO tasks VALUES (:job_id, 0, 0, :status, 0, :request)"),
            {"job_id": job_id, "status": status, "request": codec.text_of(request)},
        )


def fill_0009(connection: Connection) -> None:
    """Tokens as they were before they kept by which one they were made: 1 made 2, 2 made 3, 4 made 5."""
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "0009")
    connection.execute(text("INSERT INTO meta (singleton, cluster_id, epoch) VALUES (1, 'c', 4)"))
    connection.execute(text("INSERT INTO counters VALUES (1, 0, 0)"))
    for number, maker, revoked in (
        (1, None, True),
        (2, 1, False),
        (3, 2, False),
        (4, None, False),
        (5, 4, False),
    ):
        connection.execute(
            text(
                'INSERT INTO tokens ("user", role, digest, note, created_ms, revoked)'
                " VALUES ('ann', 'user', :digest, '', 1, :revoked)"
            ),
            {"digest": f"d{number}", "revoked": revoked},
        )
        connection.execute(
            text(
                'INSERT INTO audit (at_ms, "user", via, address, token_id, action, target, before, after)'
                " VALUES (1, 'ann', 'token', '', :maker, 'token.create', :target, '', '')"
            ),
            {"maker": maker, "target": f"token/{number}"},
        )


async def check_families(store: Store) -> None:
    tokens = await store.tokens()
    assert [(token.parent_id, token.revoked) for token in tokens] == [
        (None, True),
        (1, True),
        (2, True),
        (None, False),
        (4, False),
    ]


async def test_tokens_of_a_file_learn_who_made_them_and_end_with_that(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'old.db'}")
    with engine.begin() as connection:
        fill_0009(connection)
    engine.dispose()
    store = await SqliteStore.open(tmp_path / "old.db")
    await check_families(store)
    await store.close()


async def test_tokens_of_a_database_learn_who_made_them_and_end_with_that(postgres: PostgresServer) -> None:
    name = postgres.new_database("template0")
    try:
        engine = create_engine(postgres.url(name).replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            fill_0009(connection)
        engine.dispose()
        store = await PostgresStore.open(postgres.url(name))
        await check_families(store)
        await store.close()
    finally:
        postgres.drop(name)


async def check_counts(store: Store) -> None:
    def amounts(count: int) -> Amounts:
        return Amounts(500 * count, 64 * count, 8 * count, 1000 * count)

    assert await store.tenants() == [
        Tenant("default", used=amounts(1), job_use=JobUse(running=1)),
        Tenant("lab", used=amounts(4), job_use=JobUse(running=2, waiting=2)),
        Tenant("lab/a_b", used=amounts(2), job_use=JobUse(running=1, waiting=1)),
        Tenant("lab/axb", used=amounts(1), job_use=JobUse(running=1)),
    ]
    assert await store.recount(await store.claim()) == []
    await store.submit([a_job(tenant_id="lab/a_b")], 200)
    await store.move_tenant("lab/a_b", "team", ROOT, 201)
    assert await store.recount(await store.claim()) == []


_WAITING_SINCE = "SELECT job_id, waiting_since_ms FROM tasks WHERE waiting_since_ms > 0 ORDER BY job_id"


async def test_a_file_without_counts_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        fill_0005(connection)
    engine.dispose()
    store = await SqliteStore.open(path)
    with sqlite3.connect(path) as connection:
        assert connection.execute(_WAITING_SINCE).fetchall() == [(1, 101), (3, 103)]
    connection.close()
    await check_counts(store)
    await store.close()


async def test_a_database_without_counts_is_counted(postgres: PostgresServer) -> None:
    name = postgres.new_database("template0")
    try:
        engine = create_engine(postgres.url(name).replace("postgresql://", "postgresql+psycopg://"))
        with engine.begin() as connection:
            fill_0005(connection)
        engine.dispose()
        store = await PostgresStore.open(postgres.url(name))
        assert postgres.execute(_WAITING_SINCE, name) == [(1, 101), (3, 103)]
        await check_counts(store)
        await store.close()
    finally:
        postgres.drop(name)
