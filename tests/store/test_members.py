import asyncio

import pytest

from tests.store.store_story import ROOT, a_tenant
from tgpu.domain.access import EVERYWHERE, Actor, Member, Role
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import AccessBook, NoSuchMemberError
from tgpu.store.port import Store, UnknownTenantError


async def test_a_member_has_one_role_in_a_tenant_and_it_is_known_who_gave_it(store: Store) -> None:
    await a_tenant(store, "lab")
    assert await store.set_member(Member("ann", "lab", Role.USER, by="ann", at_ms=7), ROOT, 5) == Member(
        "ann", "lab", Role.USER, "root", 5
    )
    await store.set_member(Member("ann", EVERYWHERE, Role.VIEWER), ROOT, 6)
    bob = Actor("bob", "token", "10.0.0.1", 3)
    await store.set_member(Member("ann", "lab", Role.OPERATOR), bob, 7)
    await store.set_member(Member("Zoe", "lab", Role.ADMIN), bob, 8)
    assert await store.members() == [
        Member("Zoe", "lab", Role.ADMIN, "bob", 8),
        Member("ann", EVERYWHERE, Role.VIEWER, "root", 6),
        Member("ann", "lab", Role.OPERATOR, "bob", 7),
    ]


async def test_nobody_is_a_member_of_a_tenant_that_is_not_there(store: Store) -> None:
    with pytest.raises(UnknownTenantError, match="'lab'"):
        await store.set_member(Member("ann", "lab", Role.USER), ROOT, 5)
    assert await store.members() == []


async def test_a_role_is_taken_away_once_and_only_where_it_was_given(store: Store) -> None:
    await a_tenant(store, "lab")
    await a_tenant(store, "lab/vision")
    await store.set_member(Member("ann", "lab", Role.USER), ROOT, 5)
    with pytest.raises(NoSuchMemberError, match="ann has no role in lab/vision of its own"):
        await store.remove_member("ann", "lab/vision", ROOT, 6)
    await store.remove_member("ann", "lab", ROOT, 6)
    with pytest.raises(NoSuchMemberError):
        await store.remove_member("ann", "lab", ROOT, 6)
    assert await store.members() == []


async def test_the_book_of_access_has_all_tenants_and_members_of_one_moment(store: Store) -> None:
    await a_tenant(store, "lab", 3)
    await store.set_member(Member("ann", "lab", Role.USER), ROOT, 5)
    assert await store.access_book() == AccessBook(
        [Tenant("default"), Tenant("lab", 3)], [Member("ann", "lab", Role.USER, "root", 5)]
    )


async def test_whoever_subscribed_is_woken_when_a_role_changes(store: Store) -> None:
    wakes: list[int] = []
    store.subscribe(lambda: wakes.append(1))
    await store.set_member(Member("ann", EVERYWHERE, Role.USER), ROOT, 5)
    await asyncio.sleep(0)
    assert len(wakes) == 1
    await store.remove_member("ann", EVERYWHERE, ROOT, 6)
    await asyncio.sleep(0)
    assert len(wakes) == 2
