"""The agents' streams: greeted once somebody leads, and the newest one counts."""

import asyncio

import pytest

from tests.control.control_story import FakeNode, hello, play
from tgpu.control.hub import Hub, NodeAwayError
from tgpu.control.inbox import Inbox, NodeLeft, NodeSaidHello
from tgpu.control.refusals import SHOWN_S
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import PROTOCOL, Greeting, Heard, LogChunk, ReadLog, Refused


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


def test_a_hello_that_was_under_way_for_too_long_is_not_the_newest() -> None:
    async def story() -> None:
        inbox = Inbox()
        hub = Hub(inbox)
        hub.lead("c", 1)
        older, newer = FakeNode(hub), FakeNode(hub)
        newer.says_hello()
        older.says_hello()
        assert (older.closed, hub.session_of("n1")) == (True, newer.session.number)
        hub.drop("n1")
        older.says_hello()
        assert hub.session_of("n1") is None
        assert inbox.take()[0] == [NodeSaidHello(newer.session.number, hello())]

    play(story())


def test_who_was_dropped_is_heard_again_only_after_another_hello() -> None:
    async def story() -> None:
        inbox = Inbox()
        hub = Hub(inbox)
        hub.lead("c", 1)
        node = FakeNode(hub)
        node.says_hello()
        hub.settle("n1", node.session.number)
        hub.drop("n1")
        inbox.take()
        before = dict(hub.heard)
        await asyncio.sleep(1)
        node.beats()
        node.reports()
        assert (node.closed, hub.heard, inbox.take()[0]) == (True, before, [])
        assert not [said for said in node.heard if isinstance(said, Heard)]

    play(story())


def test_nobody_acknowledges_a_heartbeat_when_the_lease_is_over() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1, lease_s=12.0)
        node = FakeNode(hub)
        assert node.greeting.lease_s == 12.0
        node.says_hello()
        hub.settle("n1", node.session.number)
        hub.acts_until = 4.0
        node.beats()
        await asyncio.sleep(4)
        node.beats()
        assert len([said for said in node.heard if isinstance(said, Heard)]) == 1

    play(story())


def test_who_was_heard_longest_ago_comes_first() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        nodes = [FakeNode(hub, name) for name in ("n1", "n2", "n3")]
        for node in nodes:
            node.says_hello()
        await asyncio.sleep(1)
        nodes[0].beats()
        await asyncio.sleep(1)
        nodes[2].reports()
        assert list(hub.heard.items()) == [("n2", 0.0), ("n1", 1.0), ("n3", 2.0)]

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


def test_a_node_that_brings_a_licence_of_the_cluster_is_refused() -> None:
    async def story() -> None:
        inbox = Inbox()
        hub = Hub(inbox, licences={"matlab": 4})
        hub.lead("c", 1)
        node = FakeNode(hub)
        has = Capacity(8000, 1024, 0, generic={"fpga": 1, "matlab": 2})
        node.session.received(hello(has=has))
        why = (
            "node n1 offers 'matlab', which is a licence of the whole cluster (cluster_generic of the "
            "server): rename it in the node's node_generic, or leave it out"
        )
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


def test_answer_counts_only_from_the_node_that_was_asked() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        asked, forger = FakeNode(hub), FakeNode(hub, "n2")
        asked.says_hello()
        forger.says_hello()
        reading = asyncio.create_task(hub.read("n1", "1.0.1", "stdout", 5, 100, 0.0))
        await asyncio.sleep(0.1)
        forger.session.received(LogChunk(request=1, offset=5, data=b"forged", at_end=True))
        true = LogChunk(request=1, offset=5, data=b"true", at_end=True)
        asked.session.received(true)
        assert await reading == true

    play(story())


@pytest.mark.parametrize(("offset", "data"), [(5, b"x" * 101), (4, b"x")], ids=["too much", "too early"])
def test_output_that_was_not_asked_for_is_refused(offset: int, data: bytes) -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node = FakeNode(hub)
        node.says_hello()
        reading = asyncio.create_task(hub.read("n1", "1.0.1", "stdout", 5, 100, 0.0))
        await asyncio.sleep(0.1)
        node.session.received(LogChunk(request=1, offset=offset, data=data, at_end=True))
        with pytest.raises(NodeAwayError, match="n1 sent other output than was asked for"):
            await reading

    play(story())


def test_reader_learns_at_once_that_the_stream_broke() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node = FakeNode(hub)
        node.says_hello()
        reading = asyncio.create_task(hub.read("n1", "1.0.1", "stdout", 0, 100, 600.0))
        await asyncio.sleep(0.1)
        node.close()
        with pytest.raises(NodeAwayError, match="the connection to its node broke"):
            await asyncio.wait_for(reading, 1)

    play(story())


def test_invalid_messages_are_counted_each_and_shown_for_a_while() -> None:
    async def story() -> None:
        hub, counted = Hub(Inbox()), list[int]()
        hub.refusals.count = lambda: counted.append(1)
        hub.lead("c", 1)
        for _ in range(3):
            node = FakeNode(hub)
            node.says_hello()
            node.session.refused("sent is not a finite number")
            assert node.closed
        assert len(counted) == 3
        fault = "its agent sent an invalid message: sent is not a finite number"
        assert (hub.refusals.fault_of("n1"), hub.refusals.fault_of("n2")) == (fault, "")
        await asyncio.sleep(SHOWN_S + 1)
        assert hub.refusals.fault_of("n1") == ""

    play(story())
