"""Keys and strangers: who is believed, and how many may wait at the door."""

import asyncio
from collections.abc import Sequence

import pytest

from tgpu.domain.node_limits import Admission
from tgpu.protocol.node_keys import digest_of
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring.crowd import Crowd, CrowdedError
from tgpu.wiring.key_ring import KeyRing


class Kept:
    """The store's part."""

    def __init__(self, **keys: str) -> None:
        self.keys = keys
        self.asked: list[int] = []
        """How many keys at a time."""
        self.away = False

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]:
        self.asked.append(len(node_ids))
        await asyncio.sleep(0)
        if self.away:
            raise StoreUnavailableError("away")
        return [digest_of(self.keys[name]) if name in self.keys else None for name in node_ids]

    async def admissions(self, node_ids: Sequence[str]) -> list[Admission | None]:
        return [Admission() if name in self.keys else None for name in node_ids]


def test_a_key_is_good_until_another_was_given_or_the_node_was_removed() -> None:
    async def story() -> None:
        kept = Kept(n1="a")
        ring = KeyRing(kept)
        assert await ring.refusal("n1", "a") is None
        kept.keys["n1"] = "b"
        assert await ring.refusal("n1", "b") is None
        assert "is not the one it was given last" in str(await ring.refusal("n1", "a"))
        kept.keys.clear()
        assert "has not joined this cluster, or was removed" in str(await ring.refusal("n1", "b"))
        assert "has not joined this cluster, or was removed" in str(await ring.refusal("n1", ""))

    asyncio.run(story())


def test_a_crowd_of_nodes_asks_the_store_a_few_times_and_each_gets_its_own_answer() -> None:
    async def story() -> None:
        kept = Kept(**{f"n{number}": f"key {number}" for number in range(1000)})
        ring = KeyRing(kept)
        told = await asyncio.gather(
            *(ring.refusal(f"n{number}", f"key {number - number % 2}") for number in range(1002))
        )
        assert [why is None for why in told[:1000]] == [True, False] * 500
        assert [str(why).partition(" ")[0] for why in told[1000:]] == ["node", "node"]
        assert kept.asked == [500, 500, 2]

    asyncio.run(story())


def test_whoever_comes_while_the_store_is_asked_is_asked_about_afterwards() -> None:
    async def story() -> None:
        kept = Kept(n1="a")
        ring = KeyRing(kept)
        first = asyncio.ensure_future(ring.refusal("n1", "a"))
        await asyncio.sleep(0)  # it has asked
        await asyncio.sleep(0)
        second = asyncio.ensure_future(ring.refusal("n1", "a"))
        assert [await first, await second] == [None, None]
        assert kept.asked == [1, 1]

    asyncio.run(story())


def test_a_store_that_is_away_is_told_to_all_who_wait_and_asked_again_by_the_next() -> None:
    async def story() -> None:
        kept = Kept(n1="a", n2="b")
        ring = KeyRing(kept)
        kept.away = True
        gone = asyncio.ensure_future(ring.refusal("n2", "b"))
        others = asyncio.gather(*(ring.refusal("n1", "a") for _ in range(2)), return_exceptions=True)
        await asyncio.sleep(0)
        gone.cancel()
        assert [type(error) for error in await others] == [StoreUnavailableError] * 2
        kept.away = False
        assert await ring.refusal("n1", "a") is None

    asyncio.run(story())


def test_a_crowd_takes_so_many_and_no_more() -> None:
    crowd = Crowd(most=2, most_bytes=10)
    first, second = crowd.enter(), crowd.enter()
    with pytest.raises(CrowdedError, match="2 connections have not said who they are"):
        crowd.enter()
    first.leave()
    first.leave()
    third = crowd.enter()
    second.said(6)
    with pytest.raises(CrowdedError, match="6 bytes are held"):
        third.said(5)
    second.leave()
    third.said(5)
    assert (crowd.strangers, crowd.bytes) == (1, 5)


def test_one_address_does_not_take_the_room_of_the_others() -> None:
    crowd = Crowd(most_bytes=100, most_bytes_per_source=10)
    greedy, other = crowd.enter("192.0.2.1"), crowd.enter("192.0.2.2")
    greedy.said(10)
    with pytest.raises(CrowdedError, match="10 of them of this address"):
        crowd.enter("192.0.2.1").said(1)
    other.said(10)
    greedy.leave()
    crowd.enter("192.0.2.1").said(10)
