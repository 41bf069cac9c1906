"""Runs the migrations that a database lacks, all in one transaction."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.engine import URL, Connection

from tgpu.store.port import StoreUnusableError


def configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(path: Path, revision: str | None) -> None:
    """From `revision`, None for an empty file, to the newest."""
    config = configuration()
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise StoreUnusableError(
            f"{path} was written by a newer version of tgpu (revision {revision}): install that version or a"
            " newer one"
        )
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    event.listen(engine, "connect", _leave_transactions_alone)
    event.listen(engine, "begin", _begin)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _leave_transactions_alone(connection: Any, _record: object) -> None:  # noqa: ANN401  as the hook has it
    """Python's driver would commit before each change of a table."""
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
