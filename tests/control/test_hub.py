"""The agents' streams: greeted once somebody leads, and the newest one counts."""

import asyncio

import pytest

from tests.control.control_story import FakeNode, hello, play
from tgpu.control.hub import Hub, NodeAwayError
from tgpu.control.inbox import Inbox, NodeLeft, NodeSaidHello
from tgpu.protocol.messages import PROTOCOL, Greeting, LogChunk, ReadLog, Refused


def test_who_comes_before_anybody_leads_is_greeted_later_and_in_order() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        early = [FakeNode(hub, f"n{number}") for number in range(5)]
        assert all(node.heard == [] for node in early)
        hub.lead("c", 3)
        late = FakeNode(hub)
        sessions = [(3 << 32) + number for number in range(1, 7)]
        assert [node.heard for node in [*early, late]] == [
            [Greeting(protocol=PROTOCOL, cluster_id="c", epoch=3, session=session)] for session in sessions
        ]

    play(story())


def test_the_newest_session_of_a_node_counts_and_the_older_one_is_hung_up() -> None:
    async def story() -> None:
        inbox = Inbox()
        hub = Hub(inbox)
        hub.lead("c", 1)
        older, newer = FakeNode(hub), FakeNode(hub)
        older.says_hello()
        newer.says_hello()
        await asyncio.sleep(0)
        assert (older.closed, newer.closed) == (True, False)
        older.session.closed()
        assert hub.session_of("n1") == newer.session.number
        newer.session.closed()
        assert hub.session_of("n1") is None
        assert inbox.take()[0] == [
            NodeSaidHello(older.session.number, hello()),
            NodeSaidHello(newer.session.number, hello()),
            NodeLeft("n1"),
        ]

    play(story())


def test_an_agent_of_another_version_is_refused() -> None:
    async def story() -> None:
        inbox = Inbox()
        hub = Hub(inbox)
        hub.lead("c", 1)
        node = FakeNode(hub)
        from_the_future = {**{name: getattr(hello(), name) for name in hello().__struct_fields__}}
        node.session.received(type(hello())(**(from_the_future | {"protocol": PROTOCOL + 1})))
        why = f"this server speaks protocol {PROTOCOL}, the agent {PROTOCOL + 1}: install one version"
        assert node.heard[1:] == [Refused(why=why)]
        assert (node.closed, inbox.take()[0]) == (True, [])

    play(story())


def test_nothing_is_believed_from_who_has_not_said_hello() -> None:
    async def story() -> None:
        inbox = Inbox()
        hub = Hub(inbox)
        hub.lead("c", 1)
        node = FakeNode(hub)
        node.reports()
        node.beats()
        assert (inbox.take(), hub.heard) == (([], False), {})

    play(story())


def test_output_is_asked_from_the_node_that_has_it() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node = FakeNode(hub)
        node.says_hello()
        reading = asyncio.ensure_future(hub.read("n1", "1.0.1", "stdout", 5, 100, 0.0))
        await asyncio.sleep(0.1)
        assert node.heard[1:] == [
            ReadLog(request=1, attempt="1.0.1", stream="stdout", offset=5, max_bytes=100, wait_s=0.0)
        ]
        chunk = LogChunk(request=1, offset=5, data=b"x", at_end=True)
        node.session.received(chunk)
        node.session.received(chunk)
        assert await reading == chunk

    play(story())


def test_output_on_a_node_that_is_away_or_silent_cannot_be_read() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        with pytest.raises(NodeAwayError, match="n1, which has the output, is not connected"):
            await hub.read("n1", "1.0.1", "stdout", 0, 100, 0.0)
        FakeNode(hub).says_hello()
        with pytest.raises(NodeAwayError, match="n1 did not answer: try again shortly"):
            await hub.read("n1", "1.0.1", "stdout", 0, 100, 0.0)

    play(story())
