"""Moves a store from its SQLite file to a PostgreSQL database, whole or not at all.

The file is marked before the database's transaction is committed: at no moment could servers work on both. If
this is interrupted between the two, nothing is lost: the same command again finds the database empty and
begins anew.
"""

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import Boolean, Table

from tgpu.store.port import StoreUnavailableError
from tgpu.store.postgres_address import Patience, PostgresAddress
from tgpu.store.postgres_connection import MIGRATING, BoundedConnection, connect
from tgpu.store.postgres_errors import cut_off
from tgpu.store.postgres_schema import OPENING_LOCK, look, make_ready
from tgpu.store.revision import HEAD
from tgpu.store.sqlite_errors import unusable
from tgpu.store.sqlite_file import connect_to_read, open_file
from tgpu.store.tables import compatibility, lease, meta, metadata, servers, tenants

_PATIENCE = Patience(idle_in_transaction_s=0, lock_s=60, statement_s=3600, answer_s=3610)
_BATCH = 5000
_NOT_COPIED = {compatibility, lease, servers}
"""What is true of the database itself, and who was there: servers say anew that they are."""
_FOUNDED = {meta.name, "counters", tenants.name}
"""What a new store has rows in."""
_NUMBERED = ("tokens", "join_tokens", "windows", "audit", "renames")
"""Whose ids the database gives out."""

Row = tuple[object, ...]


class PromotionError(Exception):
    """Nothing was changed; the text says why, and what to do."""


class UnconfirmedError(StoreUnavailableError):
    """Whether all was moved is not known."""


class AlreadyMovedError(PromotionError):
    """By an earlier call, to the same database: all is as it should be."""


@dataclass(frozen=True, slots=True)
class Promoted:
    cluster_id: str
    to: str
    """The database, without the password."""
    epoch: int
    rows: dict[str, int]
    """By table: how many were copied, and found to be the same."""


def check(file: Path, url: str) -> None:
    """Whatever can be known of a promotion beforehand, while a server works on the file; changes nothing.
    Raises what `promote` would."""
    address = PostgresAddress.parse(url)
    if not file.exists():
        raise PromotionError(f"there is no {file}: this installation keeps nothing in a file")
    try:
        with contextlib.closing(connect_to_read(file)) as source:
            cluster_id, moved_to = source.execute("SELECT cluster_id, moved_to FROM meta").fetchone()
    except sqlite3.Error as error:
        raise unusable(error, file) from error
    has_tables = look(url)[1] is not None
    try:
        with connect(address, Patience(), {}, name="tgpu promote") as target:
            if has_tables:
                _check_empty(moved_to, target, cluster_id, address)
            else:
                _check_founded_nowhere_else(moved_to, address)
                _check_may_create(target, address)
    except psycopg.Error as error:
        raise cut_off(error, address) from error


def promote(file: Path, url: str) -> Promoted:
    """Raises PromotionError, StoreUnusableError (as while a server holds the file), StoreUnavailableError."""
    address = PostgresAddress.parse(url)
    if not file.exists():
        raise PromotionError(f"there is no {file}: this installation keeps nothing in a file")
    lock, source, cluster_id = open_file(file, "")
    try:
        make_ready(address, Patience(), cluster_id)
        target = connect(address, _PATIENCE, MIGRATING, name="tgpu promote", autocommit=False)
        try:
            return _promote(source, target, cluster_id, address)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            raise PromotionError(
                f"{address.shown} does not take a row ({error}): nothing was moved; report this as a bug"
            ) from error
        except psycopg.Error as error:
            raise cut_off(error, address) from error
        finally:
            target.close()
    finally:
        source.close()
        lock.release()


def _promote(
    source: sqlite3.Connection, target: BoundedConnection, cluster_id: str, address: PostgresAddress
) -> Promoted:
    target.execute("SELECT pg_advisory_xact_lock(%s)", (OPENING_LOCK,))
    (moved_to,) = source.execute("SELECT moved_to FROM meta").fetchone()
    _check_empty(moved_to, target, cluster_id, address)
    for name in _FOUNDED:
        target.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(name)))
    tables = [table for table in metadata.sorted_tables if table not in _NOT_COPIED]
    for table in tables:
        _copy(table, source, target)
    rows = {table.name: _compare(table, source, target) for table in tables}
    for name in _NUMBERED:
        _number_on(name, source, target)
    newer = target.execute("UPDATE meta SET epoch = epoch + 1, moved_to = NULL RETURNING epoch").fetchone()
    assert newer is not None
    _mark(source, address.shown)
    try:
        target.commit()
    except psycopg.Error:
        # If the database has it nonetheless, the next attempt says so; until then neither is used by mistake.
        raise UnconfirmedError(
            f"{address.shown} did not confirm the last step: run the same command again, which finds out how"
            " it ended"
        ) from None
    epoch = newer[0]
    assert isinstance(epoch, int)
    return Promoted(cluster_id, address.shown, epoch, rows)


def _check_empty(
    moved_to: str | None, target: BoundedConnection, cluster_id: str, address: PostgresAddress
) -> None:
    founded = target.execute("SELECT cluster_id FROM meta").fetchone()
    is_same = founded is not None and founded[0] == cluster_id
    used = [table.name for table in metadata.sorted_tables if _is_used(table, target)]
    if used and is_same and moved_to == address.shown:
        raise AlreadyMovedError(
            f"this installation was moved to {address.shown} already: nothing is left to move"
        )
    if used:
        raise PromotionError(
            f"{address.shown} is not empty ({', '.join(used)} have rows): create a database of its own with"
            " createdb, and name that one"
        )
    _check_founded_nowhere_else(moved_to, address)


def _check_founded_nowhere_else(moved_to: str | None, address: PostgresAddress) -> None:
    if moved_to is not None and moved_to != address.shown:
        raise PromotionError(
            f"this installation was moved to {moved_to} before: promote that one's data, not these"
        )


def _check_may_create(target: BoundedConnection, address: PostgresAddress) -> None:
    found = target.execute("SELECT has_schema_privilege(current_schema(), 'CREATE')").fetchone()
    if found is None or not found[0]:
        raise PromotionError(
            f"{address.user or 'this user'} may not make tables in {address.shown}: make it the owner, as"
            " with createdb --owner, or GRANT CREATE ON SCHEMA public"
        )


def _is_used(table: Table, target: BoundedConnection) -> bool:
    if table in (meta, compatibility, lease) or table.name == "counters":
        return False
    there = target.execute("SELECT to_regclass(%s) IS NOT NULL", (table.name,)).fetchone()
    if there is None or not there[0]:
        return False  # its tables are older than this program
    spared = 1 if table is tenants else 0  # the one that is always there
    counted = target.execute(
        sql.SQL("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT 2) AS few").format(sql.Identifier(table.name))
    ).fetchone()
    assert counted is not None
    return int(str(counted[0])) > spared


def _copy(table: Table, source: sqlite3.Connection, target: BoundedConnection) -> None:
    """In the order of the key, which is how the file has them."""
    names = [column.name for column in table.columns]
    into = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    with target.cursor() as cursor, cursor.copy(into) as copy:
        for row in _rows_of_file(table, source):
            copy.write_row(row)


def _rows_of_file(table: Table, source: sqlite3.Connection) -> Iterator[Row]:
    booleans = [isinstance(column.type, Boolean) for column in table.columns]
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
    cursor = source.execute(f'SELECT {names} FROM "{table.name}" ORDER BY {keys}')  # noqa: S608  names of our own
    while batch := cursor.fetchmany(_BATCH):
        for row in batch:
            yield tuple(
                bool(value) if boolean and value is not None else _storable(value)
                for value, boolean in zip(row, booleans, strict=True)
            )


def _storable(value: object) -> object:
    """PostgreSQL has no zero bytes in texts: they become what its store makes of them everywhere."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _compare(table: Table, source: sqlite3.Connection, target: BoundedConnection) -> int:
    ours = _digest(_rows_of_file(table, source))
    names = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    with target.cursor(name="compared") as cursor:
        cursor.itersize = _BATCH
        cursor.execute(sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier(table.name)))
        theirs = _digest(cursor)
    if ours != theirs:
        raise PromotionError(
            f"the table {table.name} has {theirs[0]} rows in the database after {ours[0]} were copied, or"
            " they differ: nothing was moved; look at the database's log for what changed them"
        )
    return ours[0]


def _digest(rows: Iterable[Sequence[object]]) -> tuple[int, int]:
    """How many, and a sum that does not depend on their order: databases sort texts differently."""
    count = total = 0
    for row in rows:
        canonical = repr([bytes(value) if isinstance(value, memoryview) else value for value in row])
        total += int.from_bytes(hashlib.blake2b(canonical.encode(), digest_size=16).digest(), "big")
        count += 1
    return count, total % (1 << 128)


def _number_on(name: str, source: sqlite3.Connection, target: BoundedConnection) -> None:
    """The next id is one that nobody had, also of rows that are gone."""
    found = source.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (name,)).fetchone()
    if found is not None and found[0]:
        key = metadata.tables[name].primary_key.columns[0].name
        target.execute("SELECT setval(pg_get_serial_sequence(%s, %s), %s)", (name, key, found[0]))


def _mark(source: sqlite3.Connection, to: str) -> None:
    """No server takes this file any more, an older one neither."""
    source.execute("BEGIN IMMEDIATE")
    source.execute("UPDATE meta SET moved_to = ?", (to,))
    source.execute("UPDATE compatibility SET oldest_server = ?", (HEAD,))
    source.execute("COMMIT")
