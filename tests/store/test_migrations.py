import re
import sqlite3
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from tgpu.domain.tenant import Tenant
from tgpu.store import tables
from tgpu.store.cluster_port import Leader
from tgpu.store.migrations.upgrade import configuration
from tgpu.store.revision import HEAD
from tgpu.store.sqlite import SqliteStore


def parts(sql: str) -> tuple[str, list[str], str]:
    """A column that was added later stands elsewhere, and otherwise indented."""
    start, _, rest = " ".join(sql.split()).partition("(")
    body, _, tail = rest.rpartition(")")
    return start, sorted(part.strip() for part in re.split(r",(?![^()]*\))", body)), tail


def schema(path: Path) -> dict[str, tuple[str, list[str], str]]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
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
    await store.update_tenant("default", weight=8)
    assert (await store.changes(0)).tenants == [Tenant("default", 8, version=4)]
    assert await store.leader() is None
    assert await store.campaign("s1", 60_000) == 5
    assert await store.leader() == Leader("s1", 5, alive=True)
    await store.close()


def test_the_head_that_is_opened_without_alembic_is_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(configuration()).get_heads() == [HEAD]
