"""Makes a PostgreSQL database ready: looks whether it is one that can be used, brings it up to date, founds
it."""

from typing import TYPE_CHECKING

import psycopg
from sqlalchemy.exc import DBAPIError

from tgpu.store.port import StoreUnavailableError, StoreUnusableError
from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import MIGRATING, BoundedConnection, connect
from tgpu.store.postgres_errors import cannot_open
from tgpu.store.postgres_session import PostgresSession
from tgpu.store.revision import OLDEST_BESIDE, must_be_upgraded
from tgpu.store.sql import founding, servers

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

OLDEST_SERVER = 14
_OURS = {"alembic_version", "meta", "counters"}
OPENING_LOCK = 0x7467_7075
"""By which servers that start at the same time migrate one after the other."""

_SEEN_MS = 15_000
"""A server that was heard of within this time runs; each says every 3 s that it is there."""

_MIGRATING = Patience(idle_in_transaction_s=0, lock_s=600, statement_s=600, answer_s=610)
"""A large table may take minutes, and the others wait for whoever migrates it."""


def look(url: str) -> tuple[str, str | None]:
    """The program behind the database, and the revision of its tables, if it has any; changes nothing. Raises
    StoreUnusableError, or StoreUnavailableError if it may pass."""
    address = PostgresAddress.parse(url)
    try:
        with connect(address, Patience(), {}, name="tgpu doctor") as connection:
            _check_server(connection, address)
            if _is_behind(connection, address):
                _check_nobody_older(connection, address)
            there = connection.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
            assert there is not None
            found = (
                connection.execute("SELECT version_num FROM alembic_version").fetchone() if there[0] else None
            )
            program = f"PostgreSQL {connection.info.parameter_status('server_version')}"
            return program, None if found is None else str(found[0])
    except psycopg.Error as error:
        raise cannot_open(error, address) from error


def make_ready(address: PostgresAddress, patience: Patience, cluster_id: str) -> str:
    """The id the store was founded with. Raises StoreUnusableError, or StoreUnavailableError if it may
    pass."""
    try:
        connection = connect(address, patience, {}, name="tgpu opening")
        try:
            _check_server(connection, address)
            if not _is_behind(connection, address):
                founded = PostgresSession(connection).row(founding.CLUSTER_ID)
                if founded is not None:
                    return str(founded[0])
        finally:
            connection.close()
        return _bring_up_to_date(address, cluster_id)
    except (psycopg.Error, DBAPIError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        assert isinstance(cause, Exception)
        raise cannot_open(cause, address) from cause


def _check_server(connection: BoundedConnection, address: PostgresAddress) -> None:
    major = connection.info.server_version // 10_000
    if major < OLDEST_SERVER:
        raise StoreUnusableError(
            f"{address.shown} is PostgreSQL {major}: tgpu needs {OLDEST_SERVER} or newer"
        )
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnusableError(
            f"{address.shown} keeps text as {encoding}: create a database with createdb --encoding=UTF8"
            " --template=template0, and name that one"
        )


def _is_behind(connection: BoundedConnection, address: PostgresAddress) -> bool:
    rows = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
    ).fetchall()
    tables = {str(name) for (name,) in rows}
    if not tables:
        return True
    if not tables >= _OURS:
        raise StoreUnusableError(
            f"{address.shown} is the database of another program: create one for tgpu alone with createdb,"
            " and name"
            " that one"
        )
    version = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    oldest = None
    if "compatibility" in tables:
        oldest = connection.execute("SELECT oldest_server FROM compatibility").fetchone()
    return must_be_upgraded(
        None if version is None else str(version[0]),
        None if oldest is None else str(oldest[0]),
        address.shown,
    )


def _bring_up_to_date(address: PostgresAddress, cluster_id: str) -> str:
    # Alembic takes longer to import than everything else here: most starts do not need it.
    from tgpu.store.migrations.upgrade import postgres_transaction, upgrade  # noqa: PLC0415

    def new_connection() -> BoundedConnection:
        return connect(address, _MIGRATING, MIGRATING, name="tgpu migrating", autocommit=False)

    with postgres_transaction(new_connection) as connection:
        raw = _driver_connection(connection)
        raw.execute("SELECT pg_advisory_xact_lock(%s)", (OPENING_LOCK,))
        if _is_behind(raw, address):  # or somebody else has done it while this one waited
            _check_nobody_older(raw, address)
            upgrade(connection)
        return founding.found(PostgresSession(raw), cluster_id)


def _check_nobody_older(connection: BoundedConnection, address: PostgresAddress) -> None:
    """A server that runs does not look again whether it still may: it would go on, and start what is held, or
    not keep the new counts. Raises StoreUnavailableError, for it passes when they are stopped."""
    there = connection.execute("SELECT to_regclass('servers') IS NOT NULL").fetchone()
    assert there is not None
    version = connection.execute("SELECT version_num FROM alembic_version").fetchone() if there[0] else None
    if version is None or str(version[0]) >= OLDEST_BESIDE:
        return
    older = [row.url or row.server_id for row in servers.seen(PostgresSession(connection), _SEEN_MS)]
    if older:
        raise StoreUnavailableError(
            f"servers of an older version work on {address.shown} ({', '.join(older)}), and this one cannot"
            " work beside them: stop all of them, then its tables are brought up to date"
        )


def _driver_connection(connection: "Connection") -> BoundedConnection:
    raw = connection.connection.driver_connection
    assert isinstance(raw, BoundedConnection)
    return raw
