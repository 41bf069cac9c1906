"""A store from before accounting learns from its attempts what they were given and used."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg

from tests.store.test_usage_sums import JOBS, fill
from tgpu.domain.usage import Usage
from tgpu.store.port import Store
from tgpu.store.postgres import PostgresStore
from tgpu.store.sqlite import SqliteStore

FORGET = (
    "DROP TABLE usage",
    "DROP TABLE usage_kinds",
    "ALTER TABLE jobs DROP COLUMN cancel_now",
    "ALTER TABLE jobs DROP COLUMN tasks",
    "ALTER TABLE jobs DROP COLUMN gang",
    "ALTER TABLE jobs DROP COLUMN tally",
    "ALTER TABLE tasks DROP COLUMN cause",
    "ALTER TABLE tasks DROP COLUMN detail",
    "ALTER TABLE tasks DROP COLUMN checkpoint_ms",
    "DROP INDEX tokens_by_parent",
    "ALTER TABLE tokens DROP COLUMN parent_id",
    "DROP INDEX jobs_followed",
    "DROP INDEX jobs_to_forget",
    "ALTER TABLE jobs DROP COLUMN born",
    "ALTER TABLE jobs DROP COLUMN followed",
    "ALTER TABLE jobs DROP COLUMN retries",
    "ALTER TABLE jobs DROP COLUMN skipped",
    "ALTER TABLE jobs DROP COLUMN forget_ms",
    "ALTER TABLE tasks DROP COLUMN failures",
    "ALTER TABLE tasks DROP COLUMN eligible_ms",
    "ALTER TABLE tasks DROP COLUMN cancel_by",
    "ALTER TABLE tasks DROP COLUMN restart_by",
    "DROP TABLE needs",
    "ALTER TABLE jobs DROP COLUMN timing",
    "ALTER TABLE jobs DROP COLUMN changed_seq",
    "ALTER TABLE join_tokens DROP COLUMN node_name",
    "ALTER TABLE join_tokens DROP COLUMN labels",
    "ALTER TABLE join_tokens DROP COLUMN serves",
    "ALTER TABLE join_tokens DROP COLUMN address",
    "ALTER TABLE node_keys DROP COLUMN approved",
    "ALTER TABLE node_keys DROP COLUMN joined_from",
    "DROP INDEX jobs_by_text",
    "ALTER TABLE jobs DROP COLUMN command",
    "ALTER TABLE jobs DROP COLUMN gpu_milli",
    "ALTER TABLE jobs DROP COLUMN command_signature",
    "DROP TABLE start_estimates",
    "UPDATE alembic_version SET version_num = '0006'",
    "UPDATE compatibility SET oldest_server = '0006'",
)


async def every_usage(store: Store) -> list[Usage]:
    return [usage for job_id in range(1, JOBS + 1) for usage in await store.usage(job_id)]


async def written_once(store: Store) -> list[Usage]:
    """As it was written by the commits; how busy GPUs were is in no record from before."""
    found = await fill(store, Random(3))
    await store.close()
    return [replace(usage, used_gpu_ms=None) for usage in found]


async def test_a_file_from_before(database: Path) -> None:
    expected = await written_once(await SqliteStore.open(database))
    connection = sqlite3.connect(database)
    for statement in FORGET:
        connection.execute(statement)
    connection.commit()
    connection.close()
    store = await SqliteStore.open(database)
    assert await every_usage(store) == expected
    await store.close()


async def test_a_postgresql_database_from_before(postgres_url: str) -> None:
    expected = await written_once(await PostgresStore.open(postgres_url))
    with psycopg.connect(postgres_url) as connection:
        for statement in FORGET:
            connection.execute(statement)
    store = await PostgresStore.open(postgres_url)
    assert await every_usage(store) == expected
    await store.close()
