"""Nodes that have seen a newer leader than the store knows: the leader finds out, and says what to do."""

import asyncio

from tests.control.control_story import FakeNode, Leader, play
from tgpu.control.alerts import STORE_BEHIND
from tgpu.protocol.messages import KnowsNewer


async def refuse(leader: Leader, node_id: str, seconds: int) -> FakeNode:
    """It calls every three seconds, and obeys nobody."""
    for _ in range(0, seconds, 3):
        node = FakeNode(leader.hub, node_id)
        node.session.received(KnowsNewer(node_id=node_id, epoch=77))
        await asyncio.sleep(3)
    return node


def alerts(leader: Leader) -> dict[str, str]:
    return {alert.name: alert.text for alert in leader.control.alerts.now}


def test_nodes_that_refuse_for_long_are_an_alert_until_they_obey() -> None:
    async def story() -> None:
        leader = Leader()
        await asyncio.sleep(1)
        last = await refuse(leader, "n1", 15)
        assert last.closed
        text = alerts(leader)[STORE_BEHIND]
        assert "(epoch 77)" in text
        assert "refuse its orders: n1." in text
        assert "`tgpu restore --database`" in text
        await leader.node("n1")
        await asyncio.sleep(2)
        assert alerts(leader) == {}

    play(story())


def test_a_moment_without_obedience_is_no_alert_and_silence_ends_one() -> None:
    async def story() -> None:
        leader = Leader()
        await asyncio.sleep(1)
        await refuse(leader, "n1", 6)
        assert alerts(leader) == {}
        await refuse(leader, "n1", 12)
        assert STORE_BEHIND in alerts(leader)
        await asyncio.sleep(70)
        assert alerts(leader) == {}

    play(story())
