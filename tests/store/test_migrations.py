import sqlite3
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from tgpu.store import tables
from tgpu.store.migrations.upgrade import configuration
from tgpu.store.sqlite_file import HEAD


def schema(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: sql for name, sql in rows if name != "alembic_version"}


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


def test_the_head_that_is_opened_without_alembic_is_the_newest_revision() -> None:
    assert ScriptDirectory.from_config(configuration()).get_heads() == [HEAD]
