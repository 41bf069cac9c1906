import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.store.store_story import ROOT, a_job, a_tenant, assign, end, nth
from tgpu.domain.access import Action
from tgpu.domain.lifecycle import Happening
from tgpu.domain.priority import PriorityClass
from tgpu.store.access_port import AttemptHolder, AuditFilter, Token, TokenRevokedError
from tgpu.store.port import Batch, DeposedError, Started, Store, UnknownTenantError
from tgpu.store.postgres import PostgresStore


async def test_tokens_are_numbered_found_by_digest_and_revoked_once(store: Store) -> None:
    token = Token(0, "ann", "user", "d1", "laptop", 5, None)
    assert await store.create_token(token, ROOT, 5) == replace(token, token_id=1)
    other = await store.create_token(Token(0, "bob", "admin", "d2", "", 6, 99), ROOT, 6)
    assert other.token_id == 2
    assert await store.token_by_digest("d2") == other
    assert await store.token_by_digest("d3") is None
    assert await store.token_by_id(other.token_id) == other
    assert await store.token_by_id(99) is None
    assert await store.revoke_token(1, ROOT, 7)
    assert not await store.revoke_token(1, ROOT, 7)
    assert not await store.revoke_token(7, ROOT, 7)
    assert await store.tokens() == [replace(token, token_id=1, revoked=True), other]


async def test_a_token_keeps_what_it_is_good_for(store: Store) -> None:
    await a_tenant(store, "lab")
    narrow = Token(
        token_id=1,
        user="ci",
        role="user",
        digest="d1",
        note="nightly",
        created_ms=5,
        expires_ms=99,
        tenant_id="lab",
        actions=frozenset({Action.SUBMIT, Action.READ}),
        highest_class=PriorityClass.LOW,
        jobs_left=10,
        gpu_ms_left=2**50,
    )
    await store.create_token(narrow, ROOT, 5)
    assert await store.token_by_digest("d1") == narrow
    assert await store.tokens() == [narrow]


async def test_a_token_is_good_only_where_somebody_is(store: Store) -> None:
    with pytest.raises(UnknownTenantError, match="'lab'"):
        await store.create_token(Token(0, "ci", "user", "d1", "", 5, None, tenant_id="lab"), ROOT, 5)
    assert await store.tokens() == []


async def a_family(store: Store) -> None:
    """1 made 2 and 3, 3 made 4; 5 is nobody's."""
    for number, parent in enumerate((None, 1, 1, 3, None), 1):
        await store.create_token(
            Token(0, "ann", "user", f"d{number}", "", 5, None, parent_id=parent), ROOT, 5
        )


async def test_whoever_revokes_a_token_revokes_all_that_were_made_with_it(store: Store) -> None:
    await a_family(store)
    assert [token.parent_id for token in await store.tokens()] == [None, 1, 1, 3, None]
    await store.revoke_token(2, ROOT, 6)
    assert await store.revoke_token(1, ROOT, 7)
    assert [token.revoked for token in await store.tokens()] == [True, True, True, True, False]
    lines = await store.audit_entries(AuditFilter(action="token.revoke"))
    assert [(line.at_ms, line.target) for line in reversed(lines)] == [
        (6, "token/2"),
        (7, "token/1"),
        (7, "token/3"),
        (7, "token/4"),
    ]


async def test_a_token_knows_whose_tokens_it_was_made_with(store: Store) -> None:
    for number, (user, parent) in enumerate((("root", None), ("ann", 1), ("bob", 2), ("bob", None)), 1):
        await store.create_token(Token(0, user, "user", f"d{number}", "", 5, None, parent_id=parent), ROOT, 5)
    tokens = await store.tokens()
    assert [await store.token_makers(token) for token in tokens] == [set(), {"root"}, {"ann", "root"}, set()]


async def test_an_attempt_that_holds_something_tells_whose_it_is_and_by_which_token(store: Store) -> None:
    epoch = await store.claim()
    await store.create_token(Token(0, "ann", "user", "d1", "", 5, None, jobs_left=3), ROOT, 5)
    await store.submit([a_job("ann")], 10, token_id=1)
    await store.submit([a_job("bob")], 10)
    assert await store.attempt_holder(nth(1)) is None, "it waits"
    await store.commit(epoch, Batch(15, assigned=[assign(1), assign(2)]))
    spent = Token(1, "ann", "user", "d1", "", 5, None, jobs_left=2)
    assert await store.attempt_holder(nth(1)) == AttemptHolder("ann", spent)
    assert await store.attempt_holder(nth(1, 2)) == AttemptHolder("bob", None)
    await store.commit(epoch, Batch(20, started=[Started(nth(1), 20)]))
    await store.revoke_token(1, ROOT, 21)
    assert await store.attempt_holder(nth(1)) == AttemptHolder("ann", replace(spent, revoked=True))
    await store.commit(epoch, Batch(25, ended=[end(Happening.REQUEUED)]))
    await store.commit(epoch, Batch(30, assigned=[assign(1, 2)]))
    assert await store.attempt_holder(nth(1)) is None, "that attempt is over"
    assert await store.attempt_holder(nth(2)) is not None
    assert await store.attempt_holder(nth(3)) is None
    assert await store.attempt_holder(nth(1, 99)) is None


async def test_nothing_more_is_made_with_a_token_that_was_revoked(store: Store) -> None:
    await a_family(store)
    await store.revoke_token(1, ROOT, 6)
    for parent in (1, 4, 77):
        with pytest.raises(TokenRevokedError, match=f"token {parent} was revoked"):
            await store.create_token(Token(0, "ann", "user", "d", "", 7, None, parent_id=parent), ROOT, 7)
    assert len(await store.tokens()) == 5


async def test_a_tenant_that_is_removed_takes_its_tokens_and_what_they_made_along(store: Store) -> None:
    for name in ("lab", "lab/vision", "org"):
        await a_tenant(store, name)
    await store.create_token(Token(0, "ann", "user", "d1", "", 5, None, tenant_id="lab"), ROOT, 5)
    child = Token(0, "ann", "user", "d2", "", 5, None, tenant_id="lab/vision", parent_id=1)
    await store.create_token(child, ROOT, 5)
    await store.move_tenant("lab/vision", "org/vision", ROOT, 6)
    await store.remove_tenant("lab", ROOT, 7)
    assert [token.revoked for token in await store.tokens()] == [True, True]
    assert len(await store.audit_entries(AuditFilter(action="token.revoke"))) == 2


async def test_a_family_is_revoked_whole_while_it_grows(store: Store) -> None:
    await a_family(store)

    async def grow(number: int) -> None:
        with suppress(TokenRevokedError):
            await store.create_token(Token(0, "ann", "user", f"n{number}", "", 6, None, parent_id=4), ROOT, 6)

    await asyncio.gather(*map(grow, range(20)), store.revoke_token(1, ROOT, 6), *map(grow, range(20, 40)))
    assert [token.token_id for token in await store.tokens() if not token.revoked] == [5]


async def test_whoever_subscribed_is_woken_when_a_token_is_revoked(store: Store) -> None:
    await store.create_token(Token(0, "ann", "user", "d1", "", 5, None), ROOT, 5)
    wakes: list[int] = []
    store.subscribe(lambda: wakes.append(1))
    await store.revoke_token(1, ROOT, 6)
    await asyncio.sleep(0)
    assert len(wakes) == 1


async def test_other_servers_are_woken_too_and_find_it_revoked(postgres_url: str) -> None:
    one, other = await PostgresStore.open(postgres_url), await PostgresStore.open(postgres_url)
    await one.create_token(Token(0, "ann", "user", "d1", "", 5, None), ROOT, 5)
    woken = asyncio.Event()
    other.subscribe(woken.set)
    await asyncio.sleep(0.2)
    woken.clear()
    assert await one.revoke_token(1, ROOT, 6)
    await asyncio.wait_for(woken.wait(), 5)
    found = await other.token_by_digest("d1")
    assert found is not None
    assert found.revoked
    await one.close()
    await other.close()


async def test_rows_of_ended_sessions_are_removed_and_nothing_else(store: Store) -> None:
    epoch = await store.claim()
    given = [
        ("web:open", 99), ("web:expired", 50), ("web-process:s1:revoked", 99), ("web:never-ends", None),
        ("e" * 64, 50), ("a" * 64, None),
    ]  # fmt: skip
    for digest, expires_ms in given:
        await store.create_token(Token(0, "ann", "user", digest, "", 5, expires_ms), ROOT, 5)
    for number in (3, 6):
        await store.revoke_token(number, ROOT, 6)
    assert await store.forget_sessions(epoch, 49) == 1
    assert await store.forget_sessions(epoch, 60, most=1) == 1
    assert await store.forget_sessions(epoch, 60) == 0
    assert [token.token_id for token in await store.tokens()] == [1, 4, 5, 6]
    assert [entry.action for entry in await store.audit_entries(AuditFilter(), 2)] == ["token.revoke"] * 2
    await store.claim()
    with pytest.raises(DeposedError):
        await store.forget_sessions(epoch, 60)
