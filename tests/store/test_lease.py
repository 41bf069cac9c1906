import asyncio

import pytest

from tests.store.store_story import a_job, assign
from tgpu.store.cluster_port import Leader
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, DeposedError, Store

LONG = 60_000


async def campaigned(store: Store, server_id: str, ttl_ms: int = LONG) -> int:
    epoch = await store.campaign(server_id, ttl_ms)
    assert epoch is not None
    return epoch


async def test_nobody_leads_a_new_store(store: Store) -> None:
    assert await store.leader() is None
    assert not await store.renew(0, LONG)
    await store.resign(0)
    assert await store.leader() is None


async def test_whoever_campaigns_first_leads_and_others_do_not(store: Store) -> None:
    epoch = await campaigned(store, "a")
    assert await store.leader() == Leader("a", epoch, alive=True)
    assert await store.campaign("b", LONG) is None
    assert await store.leader() == Leader("a", epoch, alive=True)


async def test_it_is_told_how_long_a_lease_still_runs(store: Store) -> None:
    epoch = await campaigned(store, "a", 2000)
    leader = await store.leader()
    assert leader is not None
    assert 0 < leader.left_ms <= 2000
    assert await store.renew(epoch, LONG)
    leader = await store.leader()
    assert leader is not None
    assert LONG - 2000 < leader.left_ms <= LONG
    await store.resign(epoch)
    leader = await store.leader()
    assert leader is not None
    assert leader.left_ms == 0


async def test_of_many_that_campaign_at_once_one_wins(store: Store) -> None:
    epochs = await asyncio.gather(*(store.campaign(f"s{n}", LONG) for n in range(20)))
    (epoch,) = [epoch for epoch in epochs if epoch is not None]
    leader = await store.leader()
    assert leader is not None
    assert (leader.server_id, leader.epoch) == (f"s{epochs.index(epoch)}", epoch)


async def test_a_leader_that_campaigns_again_gets_a_higher_epoch(store: Store) -> None:
    old = await campaigned(store, "a")
    new = await campaigned(store, "a")
    assert new > old
    assert not await store.renew(old, LONG)
    assert await store.renew(new, LONG)
    with pytest.raises(DeposedError, match=f"{new} leads"):
        await store.commit(old, Batch(1))


async def test_a_lease_runs_out_by_itself_and_another_server_takes_over(store: Store) -> None:
    old = await campaigned(store, "a", 30)
    await asyncio.sleep(0.1)
    assert await store.leader() == Leader("a", old, alive=False)
    new = await campaigned(store, "b")
    assert new > old
    assert await store.leader() == Leader("b", new, alive=True)
    assert not await store.renew(old, LONG)
    assert await store.leader() == Leader("b", new, alive=True)


async def test_a_renewed_lease_runs_on(store: Store) -> None:
    epoch = await campaigned(store, "a", 300)
    assert await store.renew(epoch, LONG)
    await asyncio.sleep(0.4)
    assert await store.campaign("b", LONG) is None
    assert await store.leader() == Leader("a", epoch, alive=True)


async def test_only_a_newer_epoch_deposes(store: Store) -> None:
    old = await campaigned(store, "a", 0)
    await store.submit([a_job()], 10)
    assert await store.leader() == Leader("a", old, alive=False)
    assert (await store.commit(old, Batch(15, assigned=[assign()]))).refused == []
    assert await store.renew(old, LONG), "nobody else has won meanwhile"
    assert await store.campaign("b", LONG) is None


async def test_who_resigns_need_not_be_waited_for(store: Store) -> None:
    old = await campaigned(store, "a")
    await store.resign(old)
    assert await store.leader() == Leader("a", old, alive=False)
    assert not await store.renew(old, LONG), "a renewal that was on its way does not bring it back"
    await store.commit(old, Batch(1))
    new = await campaigned(store, "b")
    await store.resign(old)
    assert await store.leader() == Leader("b", new, alive=True)


async def test_a_claim_wins_against_every_lease(store: Store) -> None:
    old = await campaigned(store, "a")
    claimed = await store.claim()
    assert claimed > old
    assert await store.leader() is None
    assert not await store.renew(old, LONG)
    with pytest.raises(DeposedError):
        await store.commit(old, Batch(1))
    assert await campaigned(store, "b") > claimed


async def test_a_memory_store_s_leases_run_by_the_clock_it_is_given() -> None:
    now_ms = 5
    store = MemoryStore(clock_ms=lambda: now_ms)
    epoch = await campaigned(store, "a", 1000)
    now_ms = 1004
    assert await store.campaign("b", 1000) is None
    now_ms = 1005
    assert await store.leader() == Leader("a", epoch, alive=False)
    assert await store.campaign("b", 1000) == epoch + 1
