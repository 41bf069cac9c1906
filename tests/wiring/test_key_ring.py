"""Keys and strangers: who is believed, and how many may wait at the door."""

import asyncio

import pytest

from tgpu.protocol.node_keys import digest_of
from tgpu.wiring.crowd import Crowd, CrowdedError
from tgpu.wiring.key_ring import KeyRing


class Kept:
    """The store's part."""

    def __init__(self, **keys: str) -> None:
        self.keys = keys
        self.asking = self.most_asking = 0

    async def node_key_digest(self, node_id: str) -> str | None:
        self.asking += 1
        self.most_asking = max(self.most_asking, self.asking)
        await asyncio.sleep(0)
        self.asking -= 1
        key = self.keys.get(node_id)
        return None if key is None else digest_of(key)


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


def test_a_crowd_of_nodes_does_not_ask_the_store_all_at_once() -> None:
    async def story() -> None:
        kept = Kept(**{f"n{number}": "a" for number in range(1000)})
        ring = KeyRing(kept)
        refusals = await asyncio.gather(*(ring.refusal(name, "a") for name in kept.keys))
        assert set(refusals) == {None}
        assert kept.most_asking == 64

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
