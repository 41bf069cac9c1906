"""What can be wrong with the file, and what is said then."""

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.store.store_story import a_job
from tgpu.domain.lifecycle import NodeState
from tgpu.domain.node import Capacity, Node
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Batch, StoreUnavailableError, StoreUnusableError
from tgpu.store.sqlite import SqliteStore


async def test_a_store_keeps_its_id_and_its_jobs_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "tgpu ?#%.db"
    first = await SqliteStore.open(path)
    cluster_id = first.cluster_id
    await first.submit([a_job()], 1)
    await first.close()
    again = await SqliteStore.open(path, cluster_id="other")
    assert again.cluster_id == cluster_id != "other"
    assert len(await again.jobs(JobFilter(), Paging())) == 1
    await again.close()
    assert _modes(path.parent) == {"tgpu ?#%.db": 0o600, "tgpu ?#%.db.lock": 0o600}


async def test_the_file_and_what_stands_beside_it_are_private(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "x.db")
    await store.submit([a_job()], 1)
    modes = _modes(tmp_path)
    await store.close()
    assert modes == dict.fromkeys(["x.db", "x.db-shm", "x.db-wal", "x.db.lock"], 0o600)


def _modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()}


async def test_every_commit_reaches_the_disk(database: Path) -> None:
    store = await SqliteStore.open(database)
    connection = store._writer._driver.connection
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    await store.close()


async def test_readers_cannot_write(database: Path) -> None:
    store = await SqliteStore.open(database)
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        await store._readers.read(lambda session: session._cursor.execute("DELETE FROM tenants"))
    await store.close()


def test_an_up_to_date_file_opens_without_alembic(database: Path) -> None:
    code = (
        "import asyncio, sys, pathlib; from tgpu.store.sqlite import SqliteStore\n"
        "async def main(): await (await SqliteStore.open(pathlib.Path(sys.argv[1]))).close()\n"
        "asyncio.run(main()); print('alembic' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, database], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def refusal(path: Path) -> str:
    with pytest.raises(StoreUnusableError) as refused:
        await SqliteStore.open(path)
    return str(refused.value).replace(str(path), "FILE")


async def test_a_second_server_is_told_who_holds_the_file(database: Path) -> None:
    store = await SqliteStore.open(database)
    assert await refusal(database) == (
        f"FILE is in use by the server with process id {os.getpid()}: stop that one first, or name another"
        " file"
    )
    await store.close()
    await (await SqliteStore.open(database)).close()


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary, " * 100)
    assert await refusal(path) == "FILE is not a database: move it away, or name another file"
    assert path.read_text() == "dear diary, " * 100


async def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    sqlite3.connect(path).execute("CREATE TABLE songs (title)").connection.close()
    assert await refusal(path) == "FILE is the database of another program: name another file"


@pytest.mark.parametrize("keep", [0.3, 0.6])
async def test_a_truncated_file_is_called_damaged(database: Path, keep: float) -> None:
    _truncate(database, keep)
    assert "FILE is damaged: stop the server and restore it from a backup" in await refusal(database)


async def test_a_file_with_rubbish_in_the_middle_is_called_damaged(database: Path) -> None:
    store = await SqliteStore.open(database)
    await store.submit([a_job() for _ in range(500)], 1)
    await store.close()
    _put_rubbish_into(database)
    assert "FILE is damaged" in await refusal(database)


def _truncate(path: Path, keep: float) -> None:
    os.truncate(path, int(path.stat().st_size * keep) // 4096 * 4096)


def _put_rubbish_into(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 20_000] = b"\xa5" * 20_000
    path.write_bytes(content)


async def test_a_newer_file_asks_for_a_newer_program(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("UPDATE compatibility SET oldest_server = '9999'")
    connection.close()
    assert await refusal(database) == (
        "FILE was written by a newer version of tgpu (revision 9999): install that version or a newer one"
    )


async def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    below_a_file = await refusal(tmp_path / "file" / "x.db")
    assert "name a file in a directory that this user may write" in below_a_file
    assert "cannot be used" in await refusal(tmp_path)


async def test_a_refused_file_is_not_kept_locked(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_text("no database" * 100)
    await refusal(path)
    path.unlink()
    await (await SqliteStore.open(path)).close()


async def test_a_closed_store_says_so(database: Path) -> None:
    store = await SqliteStore.open(database)
    await store.close()
    for work in (store.submit([a_job()], 1), store.last_seq()):
        with pytest.raises(StoreUnavailableError, match="closed"):
            await work


async def test_row_that_cannot_be_read_is_named_and_leaves_the_others(database: Path) -> None:
    store = await SqliteStore.open(database)
    submitted = await store.submit([a_job(), a_job()], 1)
    bad, good = submitted.job_ids
    node = Node("n1", NodeState.READY, Capacity(1000, 1, 1))
    await store.commit(await store.claim(), Batch(1, nodes=[node, replace(node, node_id="n2")]))
    connection = sqlite3.connect(database)
    connection.execute("UPDATE tasks SET request = 'nonsense' WHERE job_id = ?", (bad,))
    connection.execute("UPDATE nodes SET body = '{}' WHERE node_id = 'n1'")
    connection.commit()
    connection.close()
    world, changes = await store.load(), await store.changes(0)
    await store.close()
    assert [task.task_id.job_id for task in world.tasks] == [good]
    assert [each.node_id for each in world.nodes] == ["n2"]
    assert (list(world.unreadable.jobs), list(world.unreadable.nodes)) == ([bad], ["n1"])
    assert [task.task_id.job_id for task in changes.submitted] == [good]
    assert list(changes.unreadable.jobs) == [bad]
