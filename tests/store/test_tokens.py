import asyncio
from dataclasses import replace

import pytest

from tests.store.store_story import ROOT, a_tenant
from tgpu.domain.access import Action
from tgpu.domain.priority import PriorityClass
from tgpu.store.access_port import Token
from tgpu.store.port import Store, UnknownTenantError
from tgpu.store.postgres import PostgresStore


async def test_tokens_are_numbered_found_by_digest_and_revoked_once(store: Store) -> None:
    token = Token(0, "ann", "user", "d1", "laptop", 5, None)
    assert await store.create_token(token, ROOT, 5) == replace(token, token_id=1)
    other = await store.create_token(Token(0, "bob", "admin", "d2", "", 6, 99), ROOT, 6)
    assert other.token_id == 2
    assert await store.token_by_digest("d2") == other
    assert await store.token_by_digest("d3") is None
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
