"""Two agents with the identity of one node: one of them is refused, and a node that returns never is."""

import asyncio

from tests.control.control_story import FakeNode, Leader, hello, play
from tgpu.control.alerts import NODES_COPIED
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.node_copies import PING_S, REPORTED_S
from tgpu.domain.node_terms import HOST_LABEL
from tgpu.protocol.messages import LogChunk, ReadLog, Refused


def leading(**sessions: int) -> Hub:
    hub = Hub(Inbox())
    hub.lead("c", 7, sessions=sessions)
    return hub


def answers_pings(node: FakeNode) -> None:
    for asked in [said for said in node.heard if isinstance(said, ReadLog)]:
        node.heard.remove(asked)
        node.session.received(LogChunk(request=asked.request, offset=0, data=b"", at_end=True))


def was_refused(node: FakeNode) -> bool:
    return any(isinstance(said, Refused) for said in node.heard) and node.closed


def test_copy_is_refused_while_the_node_is_connected_and_answers() -> None:
    async def story() -> None:
        hub = leading()
        node = FakeNode(hub)
        node.says_hello(instance="a")
        for _ in range(3):
            copy = FakeNode(hub)
            copy.says_hello(instance="b")
            answers_pings(node)
            await asyncio.sleep(PING_S)
            assert was_refused(copy)
        assert hub.session_of("n1") == node.session.number
        assert not node.closed

    play(story())


def test_copy_with_the_record_of_the_present_session_is_refused_too() -> None:
    async def story() -> None:
        hub = leading(n1=5)
        node, copy = FakeNode(hub), FakeNode(hub)
        node.says_hello(instance="a", last_sessions=(5,))
        hub.settle("n1", node.session.number)
        copy.says_hello(instance="b", last_sessions=(node.session.number,))
        answers_pings(node)
        assert was_refused(copy)

    play(story())


def test_newcomer_takes_the_place_of_an_agent_that_does_not_answer() -> None:
    async def story() -> None:
        hub = leading()
        node, rebooted = FakeNode(hub), FakeNode(hub)
        node.says_hello(instance="a")
        rebooted.says_hello(instance="b")
        assert hub.session_of("n1") == node.session.number
        await asyncio.sleep(PING_S + 0.1)
        assert (node.closed, hub.session_of("n1")) == (True, rebooted.session.number)
        assert not was_refused(rebooted)

    play(story())


def test_newcomer_is_admitted_as_soon_as_the_other_stream_ends() -> None:
    async def story() -> None:
        hub = leading()
        node, restarted = FakeNode(hub), FakeNode(hub)
        node.says_hello(instance="a")
        restarted.says_hello(instance="b")
        node.close()
        await asyncio.sleep(PING_S / 10)
        assert hub.session_of("n1") == restarted.session.number

    play(story())


def test_newcomer_that_leaves_and_comes_again_does_not_wait_longer() -> None:
    async def story() -> None:
        hub = leading()
        node, newcomer = FakeNode(hub), FakeNode(hub)
        node.says_hello(instance="a")
        newcomer.says_hello(instance="b")
        newcomer.close()
        await asyncio.sleep(PING_S / 2)
        again = FakeNode(hub)
        again.says_hello(instance="b")
        again.close()
        await asyncio.sleep(PING_S / 2 + 0.1)
        assert (node.closed, hub.session_of("n1")) == (True, None)
        again = FakeNode(hub)
        again.says_hello(instance="b")
        assert hub.session_of("n1") == again.session.number

    play(story())


def test_same_process_takes_its_own_place_at_once() -> None:
    async def story() -> None:
        hub = leading()
        older, newer = FakeNode(hub), FakeNode(hub)
        older.says_hello(instance="a")
        newer.says_hello(instance="a")
        assert hub.session_of("n1") == newer.session.number

    play(story())


def test_agent_that_missed_a_session_of_its_node_is_refused_though_no_other_is_connected() -> None:
    async def story() -> None:
        hub = leading(n1=9)
        for behind in ((5,), (5, 6), (5, 12)):
            copy = FakeNode(hub)
            copy.says_hello(instance="b", last_sessions=behind)
            assert was_refused(copy), behind
            assert hub.session_of("n1") is None

    play(story())


def test_node_is_admitted_after_restart_lost_confirmation_restored_store_new_key_and_upgrade() -> None:
    async def story() -> None:
        for known in (
            (9,),  # it restarted
            (5, 8, 9),  # it was not told that session 9 was committed
            (5, 9, 11),  # nor was session 11
            (12,),  # the store was put back from a copy
            (0,),  # it has joined again, or was upgraded
            None,  # an older agent
        ):
            hub = leading(n1=9)
            node = FakeNode(hub)
            node.says_hello(instance="b", last_sessions=known)
            assert hub.session_of("n1") == node.session.number, known

    play(story())


def test_refused_copy_raises_an_alert_until_it_stays_away() -> None:
    async def story() -> None:
        hub, loop = leading(n1=9), asyncio.get_running_loop()
        copy = FakeNode(hub)
        copy.session.received(hello(labels={HOST_LABEL: "ws2"}, instance="b", last_sessions=(5,)))
        assert was_refused(copy)
        told = hub.alerts(loop.time())[NODES_COPIED] or ""
        assert "two agents have the identity of one node: n1 (refused on ws2)" in told
        assert "join it with a new token and a --name of its own" in told
        assert hub.copies.told_of("n1", loop.time()).startswith("a copy of it on ws2 was refused once: stop")
        await asyncio.sleep(REPORTED_S + 1)
        assert hub.alerts(loop.time())[NODES_COPIED] is None
        assert not hub.copies.told_of("n1", loop.time())

    play(story())


def test_next_leader_knows_the_last_session_of_each_node() -> None:
    async def story() -> None:
        first = Leader()
        node = await first.node(instance="a", last_sessions=(0,))
        await asyncio.sleep(1)
        (known,) = await first.store.nodes()
        assert known.session == node.session.number
        first.running.cancel()
        second = Leader(first.store)
        copy = await second.node(instance="b", last_sessions=(known.session - 1,))
        assert was_refused(copy)
        returned = await second.node(instance="c", last_sessions=(0, known.session))
        assert second.hub.session_of("n1") == returned.session.number
        await asyncio.sleep(1)
        assert second.watch.alerts == {NODES_COPIED: True}
        (node_now,) = await second.store.nodes()
        assert node_now.session == returned.session.number
        second.running.cancel()

    play(story())


def test_agent_without_a_record_does_not_change_the_last_session() -> None:
    async def story() -> None:
        leader = Leader()
        node = await leader.node(instance="a", last_sessions=(0,))
        await asyncio.sleep(1)
        node.close()
        await leader.node(instance="", last_sessions=None)
        await asyncio.sleep(1)
        (known,) = await leader.store.nodes()
        assert known.session == node.session.number
        leader.running.cancel()

    play(story())
