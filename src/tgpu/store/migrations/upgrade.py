"""Runs the migrations that a database lacks, all in one transaction."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import NullPool, create_engine, event
from sqlalchemy.engine import URL, Connection


def configuration() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.set_main_option("path_separator", "os")
    return config


def upgrade(connection: Connection) -> None:
    """From wherever the database is to the newest revision."""
    config = configuration()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@contextmanager
def sqlite_transaction(path: Path) -> Iterator[Connection]:
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)
    event.listen(engine, "connect", _leave_transactions_alone)
    event.listen(engine, "begin", _begin)
    with engine.begin() as connection:
        yield connection


def _leave_transactions_alone(connection: Any, _record: object) -> None:  # noqa: ANN401  as the hook has it
    """Python's driver would commit before each change of a table."""
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextmanager
def postgres_transaction(new_connection: Callable[[], Any]) -> Iterator[Connection]:
    """On a connection of psycopg that is not in its autocommit mode."""
    engine = create_engine("postgresql+psycopg://", creator=new_connection, poolclass=NullPool)
    with engine.begin() as connection:
        yield connection
