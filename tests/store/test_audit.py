"""The audit log: a line for every change, none for what was refused, and none ever changed."""

import json
import sqlite3
from pathlib import Path

import psycopg
import pytest

from tests.store.store_story import ROOT, a_tenant, setting
from tgpu.domain.access import Action, Actor, AuditEntry, Member, Role
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, Limits, OverQuota
from tgpu.domain.tenant import Budget, Tenant, Terms
from tgpu.store.access_port import AuditFilter, NoSuchMemberError, Token
from tgpu.store.port import StaleVersionError, Store, TenantExistsError
from tgpu.store.sqlite import SqliteStore

ANN = Actor("ann", "token", "192.0.2.7", 4)


async def newest(store: Store) -> tuple[str, str, object, object]:
    entry = (await store.audit_entries(AuditFilter(), limit=1))[0]
    return entry.action, entry.target, said(entry.before), said(entry.after)


def said(text: str) -> object:
    return json.loads(text) if text else None


async def test_a_line_says_who_did_what_when_and_from_where(store: Store) -> None:
    await store.create_tenant(Tenant("lab", 3), ANN, 5)
    assert await store.audit_entries(AuditFilter()) == [
        AuditEntry(
            1,
            5,
            ANN,
            "tenant.create",
            "lab",
            "",
            '{"weight":3,"job_limits":{"period":"month"},"terms":{"archived":false}}',
        )
    ]


async def test_a_changed_tenant_is_told_by_what_differs(store: Store) -> None:
    await a_tenant(store, "lab", 3, limits=Limits(gpu_milli=4000, cpu_milli=1))
    await store.update_tenant("lab", setting(weight=5), ROOT, 2)
    assert await newest(store) == ("tenant.update", "lab", {"weight": 3}, {"weight": 5})
    after = setting(
        limits=Limits(cpu_milli=1, named=(("gpu:a100", 2000),)),
        job_limits=JobLimits(running=4),
        terms=Terms(classes=frozenset({PriorityClass.LOW}), over_quota=OverQuota.QUEUE, archived=True),
        budget=Budget(9),
    )
    await store.update_tenant("lab", after, ROOT, 3)
    assert await newest(store) == (
        "tenant.update",
        "lab",
        {
            "limits": {"gpu_milli": 4000, "gpu:a100": None},
            "job_limits": {"running": None},
            "terms": {"classes": None, "over_quota": None, "archived": False},
            "budget": None,
        },
        {
            "limits": {"gpu_milli": None, "gpu:a100": 2000},
            "job_limits": {"running": 4},
            "terms": {"classes": ["low"], "over_quota": "queue", "archived": True},
            "budget": {"gpu_ms": 9, "period": "month"},
        },
    )


async def test_moves_and_removals_are_told(store: Store) -> None:
    await a_tenant(store, "lab", 3)
    await store.set_member(Member("ann", "lab", Role.USER), ROOT, 2)
    await store.move_tenant("lab", "team", ROOT, 3)
    assert await newest(store) == ("tenant.move", "lab", {"tenant_id": "lab"}, {"tenant_id": "team"})
    await store.remove_tenant("team", ROOT, 4)
    before = {
        "weight": 3,
        "job_limits": {"period": "month"},
        "terms": {"archived": False},
        "members": {"ann": "user"},
    }
    assert await newest(store) == ("tenant.remove", "team", before, None)


async def test_members_and_tokens_are_told_and_their_digests_are_not(store: Store) -> None:
    await store.set_member(Member("bob", "*", Role.USER), ROOT, 2)
    assert await newest(store) == ("member.set", "*", None, {"user": "bob", "role": "user"})
    await store.set_member(Member("bob", "*", Role.ADMIN), ROOT, 2)
    was, is_now = {"user": "bob", "role": "user"}, {"user": "bob", "role": "admin"}
    assert await newest(store) == ("member.set", "*", was, is_now)
    await store.remove_member("bob", "*", ROOT, 2)
    assert await newest(store) == ("member.remove", "*", is_now, None)
    token = Token(0, "ci", "user", "the-digest", "", 5, None, actions=frozenset({Action.SUBMIT}), jobs_left=0)
    await store.create_token(token, ROOT, 3)
    facts = {"user": "ci", "role": "user", "note": "", "actions": ["submit"], "jobs_left": 0}
    assert await newest(store) == ("token.create", "token/1", None, facts)
    await store.revoke_token(1, ROOT, 4)
    assert await newest(store) == ("token.revoke", "token/1", facts, None)
    assert "the-digest" not in repr(await store.audit_entries(AuditFilter()))


async def test_what_was_refused_or_changed_nothing_has_no_line(store: Store) -> None:
    await a_tenant(store, "lab", 3)
    known = await store.audit_entries(AuditFilter())
    with pytest.raises(TenantExistsError):
        await store.create_tenant(Tenant("lab"), ROOT, 2)
    with pytest.raises(StaleVersionError):
        await store.update_tenant("lab", setting(weight=9), ROOT, 2, if_version=7)
    with pytest.raises(NoSuchMemberError):
        await store.remove_member("ann", "lab", ROOT, 2)
    await store.update_tenant("lab", setting(weight=3), ROOT, 2)
    assert not await store.revoke_token(5, ROOT, 2)
    assert not await store.remove_tenant("nobody", ROOT, 2)
    assert await store.audit_entries(AuditFilter()) == known


async def test_the_log_is_searched_by_who_what_whom_and_when(store: Store) -> None:
    for number, (actor, action, target) in enumerate(
        [
            (ROOT, "tenant.create", "lab"),
            (ANN, "tenant.update", "lab/a_b"),
            (ANN, "tenants", "lab2"),
            (ROOT, "node.drain", "lab/axb/c"),
            (ANN, "node.drain", "LAB"),
        ],
        1,
    ):
        await store.note(actor, action, target, "", '{"n":1}', 10 * number)

    async def found(limit: int = 100, before_id: int | None = None, **where: object) -> list[int]:
        entries = await store.audit_entries(AuditFilter(**where), limit, before_id)  # type: ignore[arg-type]
        return [entry.audit_id for entry in entries]

    assert await found() == [5, 4, 3, 2, 1]
    assert await found(user="ann") == [5, 3, 2]
    assert await found(action="tenant") == [2, 1]
    assert await found(action="node.drain") == [5, 4]
    assert await found(target="lab") == [4, 2, 1]
    assert await found(target="lab/a_b") == [2]
    assert await found(from_ms=20, until_ms=40) == [3, 2]
    assert await found(limit=2) == [5, 4]
    assert await found(limit=2, before_id=4) == [3, 2]
    assert await found(before_id=1) == []
    assert await found(before_id=2**60) == [5, 4, 3, 2, 1]
    assert await found(user="ann", action="node") == [5]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit SET target = 'x'", "DELETE FROM audit", "DELETE FROM audit WHERE audit_id = 1"],
)
async def test_the_file_refuses_to_change_the_log(database: Path, statement: str) -> None:
    store = await SqliteStore.open(database)
    await store.note(ROOT, "a", "b", "", "", 1)
    connection = sqlite3.connect(database)
    with pytest.raises(sqlite3.IntegrityError, match="the audit log is only added to"):
        connection.execute(statement)
    connection.close()
    assert len(await store.audit_entries(AuditFilter())) == 1
    await store.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit SET target = 'x'",
        "DELETE FROM audit",
        "DELETE FROM audit WHERE audit_id = 1",
        "TRUNCATE audit",
    ],
)
def test_the_database_refuses_to_change_the_log(postgres_url: str, statement: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute(
            'INSERT INTO audit (at_ms, "user", via, address, action, target, "before", after)'
            " VALUES (1, 'a', 'b', '', 'c', 'd', '', '')"
        )
        connection.commit()
        with pytest.raises(psycopg.errors.RaiseException, match="the audit log is only added to"):
            connection.execute(statement.encode())
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM audit").fetchone() == (1,)
