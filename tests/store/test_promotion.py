"""From the file to PostgreSQL: everything or nothing, and never two stores at once."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer
from tests.store.store_story import ROOT, a_job, a_node, an_array, end, nth, running, setting
from tgpu.domain.access import EVERYWHERE, Member, Role
from tgpu.domain.ids import AttemptId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Exit
from tgpu.domain.label_rules import label_rules
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.needs import SINGLETON, Need, NeedKind
from tgpu.domain.quota import Limits
from tgpu.domain.retries import Retries
from tgpu.domain.tenant import Tenant
from tgpu.store import promotion
from tgpu.store.access_port import AuditFilter, Token
from tgpu.store.cluster_port import JoinToken, WindowKind, WindowRow
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.port import Assigned, AttemptEnded, Batch, IdempotencyKey, Store, StoreUnusableError
from tgpu.store.postgres import PostgresStore
from tgpu.store.promotion import PromotionError, promote
from tgpu.store.sqlite import SqliteStore
from tgpu.store.sqlite_copies import CopyError, back_up, put_back
from tgpu.store.task_paging import TaskPaging


async def a_life(path: Path) -> int:
    """A file in which everything there is has happened once; returns its epoch."""
    store = await SqliteStore.open(path)
    epoch = await running(store, a_job(name="ü\0x"))
    await store.commit(epoch, Batch(40, nodes=[a_node("n1"), a_node("N2")], ended=[end(Happening.REQUEUED)]))
    await store.create_tenant(Tenant("org", 3), ROOT, 1)
    await store.submit([a_job(tenant_id="org")] * 20, 50, IdempotencyKey("ann", "k", "b"))
    await store.request_cancel([3], "bob", 60)
    for digest in ("d1", "d2"):
        await store.create_token(Token(0, "ann", "user", digest, "", 1, None), ROOT, 1)
    await store.revoke_token(2, ROOT, 2)
    await store.update_tenant("org", setting(limits=Limits(named=(("gpu:a100", 7),))), ROOT, 3)
    await store.set_member(Member("ann", "org", Role.OPERATOR), ROOT, 4)
    await store.set_member(Member("bob", EVERYWHERE, Role.VIEWER), ROOT, 4)
    await store.set_secret("ann", "key", b"\x00\xfe", ROOT, 5)
    await store.create_join_token(JoinToken(0, "j", "", "ann", 1, None, uses_left=None))
    await store.enrol("j", "n1", "key", 2)
    rules = label_rules("where", ["rack in (a, b)"])
    await store.create_window(WindowRow(0, WindowKind.MAINTENANCE, "w", ("n1",), rules, 1, 2, "ann", 1))
    await store.secret("ca", b"\x00\xff")
    await kinds_of_jobs(store, epoch)
    await store.close()
    return epoch


async def kinds_of_jobs(store: Store, epoch: int) -> None:
    """A series of which few have rows, one that fails and is tried again, and who waits for them."""
    await store.submit([an_array(1000, retries=Retries(per_index=2), ttl_after_finished_s=60)], 70)
    await store.cancel_tasks(22, IndexSet.of([900]), "ann", 71)
    placed = [Assigned(AttemptId(22, task, 1), "n1", ()) for task in (0, 1)]
    await store.commit(epoch, Batch(72, assigned=placed))
    how = Exit(Cause.EXITED, 1, ended_ms=73)
    failed = AttemptEnded(placed[0].attempt_id, how, Happening.REQUEUED, counts=True, eligible_ms=99)
    await store.commit(epoch, Batch(73, ended=[failed]))
    await store.restart_tasks(22, [1], "ann", 74)
    needs = (Need(NeedKind.ANY, 22), Need(NeedKind.OK, 1))
    await store.submit([a_job(needs=needs), a_job(needs=(SINGLETON,))], 75)
    await store.hold([23], "bob", 76)
    await store.suspend(24, "ann", 77)


async def everything(store: Store) -> list[object]:
    world = await store.load()
    jobs = await store.jobs(JobFilter(), Paging(limit=1000))
    return [
        world,
        jobs,
        [await store.attempts(job.job_id) for job in jobs],
        await store.events(limit=1000),
        await store.tenants(),
        await store.tokens(),
        await store.members(),
        await store.secret_names("ann"),
        await store.secret_bodies("ann", ["key"]),
        await store.audit_entries(AuditFilter()),
        await store.join_tokens(),
        await store.windows(),
        await store.node_key_digest("n1"),
        await store.secret("ca", b"other"),
        await store.needs_around([job.job_id for job in jobs]),
        [await store.tasks(job.job_id, TaskPaging()) for job in jobs],
        store.cluster_id,
    ]


@pytest.fixture
def empty_url(postgres: PostgresServer) -> Iterator[str]:
    name = postgres.new_database("template1")
    yield postgres.url(name)
    postgres.drop(name)


async def test_everything_is_in_the_database_afterwards(database: Path, empty_url: str) -> None:
    epoch = await a_life(database)
    file = await SqliteStore.open(database)
    before = await everything(file)
    await file.close()
    promoted = await asyncio.to_thread(promote, database, empty_url)
    assert (promoted.cluster_id, promoted.epoch) == ("c", epoch + 1)
    assert (promoted.rows["jobs"], promoted.rows["tasks"], promoted.rows["tokens"]) == (24, 87, 2)
    assert promoted.rows["needs"] == 3
    assert ":not-a-secret@" not in promoted.to
    store = await PostgresStore.open(empty_url)
    # PostgreSQL has no zero bytes in texts; what the job was asked with, in JSON, keeps it.
    after = repr(await everything(store))
    assert "\ufffdx" in after
    assert after.replace("\ufffdx", "\\x00x") == repr(before)
    assert await store.claim() > epoch
    assert (await store.submit([a_job()], 90)).job_ids == [25]
    assert (await store.submit([a_job(tenant_id="org")] * 20, 99, IdempotencyKey("ann", "k", "b"))).replayed
    assert (await store.create_token(Token(0, "bob", "user", "d3", "", 1, None), ROOT, 9)).token_id == 3
    assert (await store.audit_entries(AuditFilter()))[0].audit_id == 9
    assert (await store.create_join_token(JoinToken(0, "j2", "", "ann", 1, None))).token_id == 2
    await store.close()


async def test_a_database_with_jobs_in_it_is_left_alone(database: Path, postgres_url: str) -> None:
    await a_life(database)
    busy = await PostgresStore.open(postgres_url)
    await busy.submit([a_job()], 1)
    await busy.close()
    with pytest.raises(PromotionError, match=r"is not empty \(jobs, .* have rows\)"):
        await asyncio.to_thread(promote, database, postgres_url)
    await (await SqliteStore.open(database)).close()


async def test_a_founded_and_empty_database_will_do_and_a_second_time_nothing_happens(
    database: Path, postgres_url: str
) -> None:
    await a_life(database)
    await asyncio.to_thread(promote, database, postgres_url)
    with pytest.raises(
        StoreUnusableError, match=r"was promoted to postgresql://tgpu@127.0.0.1:\d+/test\d+: start"
    ):
        await SqliteStore.open(database)
    with pytest.raises(PromotionError, match=r"was moved to .* already: nothing is left to move"):
        await asyncio.to_thread(promote, database, postgres_url)


async def test_no_backup_takes_the_place_of_a_file_that_was_moved(
    database: Path, postgres_url: str, tmp_path: Path
) -> None:
    await a_life(database)
    back_up(database, tmp_path / "copy")
    await asyncio.to_thread(promote, database, postgres_url)
    with pytest.raises(CopyError, match=r"was moved to .*: put that database back .* restore --database"):
        put_back(database, tmp_path / "copy", 100)
    with pytest.raises(StoreUnusableError, match="was promoted to"):
        await SqliteStore.open(database)
    await asyncio.to_thread(database.rename, tmp_path / "given-up")
    assert put_back(database, tmp_path / "copy", 100).jobs == 24


async def test_the_file_cannot_be_moved_to_two_places(
    database: Path, postgres_url: str, empty_url: str
) -> None:
    await a_life(database)
    await asyncio.to_thread(promote, database, postgres_url)
    with pytest.raises(PromotionError, match=r"was moved to .* before"):
        await asyncio.to_thread(promote, database, empty_url)


async def test_a_server_must_not_run_meanwhile(database: Path, postgres_url: str) -> None:
    store = await SqliteStore.open(database)
    with pytest.raises(StoreUnusableError, match="is in use by the server with process id"):
        await asyncio.to_thread(promote, database, postgres_url)
    await store.close()


async def test_what_differs_after_the_copy_moves_nothing(
    database: Path, postgres: PostgresServer, postgres_url: str
) -> None:
    await a_life(database)
    name = postgres_url.rpartition("/")[2]
    postgres.execute(
        "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN NEW.at_ms = NEW.at_ms + 1; RETURN NEW; END'",
        name,
    )
    postgres.execute(
        "CREATE TRIGGER spoil BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.seq = 3)"
        " EXECUTE FUNCTION spoil()",
        name,
    )
    with pytest.raises(PromotionError, match=r"the table events has .* nothing was moved"):
        await asyncio.to_thread(promote, database, postgres_url)
    store = await PostgresStore.open(postgres_url)
    assert (await store.load()).tasks == []
    await store.close()
    file = await SqliteStore.open(database)
    assert len((await file.load()).tasks) == 87
    await file.close()


async def test_one_that_was_interrupted_before_its_last_step_is_done_again(
    database: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_life(database)

    class Killed(BaseException):
        pass

    mark = promotion._mark

    def dies(source: sqlite3.Connection, to: str) -> None:
        mark(source, to)
        raise Killed

    monkeypatch.setattr(promotion, "_mark", dies)
    with pytest.raises(Killed):
        await asyncio.to_thread(promote, database, postgres_url)
    monkeypatch.undo()
    with pytest.raises(StoreUnusableError, match="if the promotion was interrupted, run `tgpu promote --to"):
        await SqliteStore.open(database)
    promoted = await asyncio.to_thread(promote, database, postgres_url)
    assert promoted.rows["jobs"] == 24
    store = await PostgresStore.open(postgres_url)
    assert (await store.attempt(nth(1))) is not None
    await store.close()
