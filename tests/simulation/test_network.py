"""The simulated network: a stream in a fair mood, and what may happen to one in a bad one."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from tgpu.protocol.messages import (
    Acknowledge,
    FromAgent,
    FromServer,
    Heard,
    Heartbeat,
    NodeUse,
    Orders,
    Report,
)
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.network import Mood, Network
from tgpu.sim.stream import AgentEnd, Server
from tgpu.sim.trace import Trace


class Ears:
    """Either side: the agent's listener, and the hub's session."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.over = False

    def received(self, message: FromAgent | FromServer) -> None:
        self.heard.append(message)

    def closed(self) -> None:
        self.over = True


class Wire:
    def __init__(self, mood: Mood) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self.network = Network(loop, Random(1), Trace(loop.time), mood, lambda _agent, _epoch: None)
        self.agent, self.server = Incarnation("agent"), Incarnation("server")
        self.at_agent, self.at_server = Ears(), Ears()
        self.links: list[Any] = []
        self.network.servers.append(Server(self.server, "sim://one", self._accept))

    def _accept(self, link: Any) -> Ears:
        self.links.append(link)
        return self.at_server

    async def dial(self) -> AgentEnd:
        channel = await self.network.dial(self.agent, "n1", self.at_agent)
        await asyncio.sleep(0.01)
        return channel


def play(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    loop = SimLoop(Random(0))
    try:
        loop.run_until_complete(story())
    finally:
        loop.dispose()


def reports(count: int) -> list[Report]:
    return [Report(seq=seq, attempts=()) for seq in range(count)]


def test_a_fair_stream_keeps_everything_in_order_both_ways() -> None:
    async def story() -> None:
        wire = Wire(Mood(slowest_s=1.0))
        channel = await wire.dial()
        said = reports(50)
        for message in said:
            channel.send(message)
            wire.links[0].send(Acknowledge(session=1, seq=message.seq))
        await asyncio.sleep(5)
        assert wire.at_server.heard == said
        assert [message.seq for message in wire.at_agent.heard] == list(range(50))

    play(story)


def test_in_a_bad_mood_what_is_repeatable_is_lost_doubled_and_disordered_and_the_rest_is_not() -> None:
    async def story() -> None:
        wire = Wire(Mood(unruly=True))
        channel = await wire.dial()
        for message in reports(200):
            channel.send(message)
            channel.send(Heartbeat(use=NodeUse(cpu_milli=message.seq)))
        await asyncio.sleep(10)
        seqs = [message.seq for message in wire.at_server.heard if isinstance(message, Report)]
        beats = [message.use.cpu_milli for message in wire.at_server.heard if isinstance(message, Heartbeat)]
        assert beats == list(range(200))
        assert len(set(seqs)) < 200
        assert len(set(seqs)) < len(seqs)
        assert seqs != sorted(seqs)

    play(story)


def test_what_a_server_orders_before_it_acknowledges_a_heartbeat_is_neither_lost_nor_late() -> None:
    async def story() -> None:
        wire = Wire(Mood(unruly=True))
        await wire.dial()
        for session in range(100):
            wire.links[0].send(Orders(session=session))
        wire.links[0].send(Heard(sent=1.0))
        for session in range(100, 200):
            wire.links[0].send(Orders(session=session))
        await asyncio.sleep(10)
        first = [said.session for said in wire.at_agent.heard if isinstance(said, Orders)]
        assert [session for session in first if session < 100] == list(range(100))
        assert len({session for session in first if session >= 100}) < 100
        before = wire.at_agent.heard[: wire.at_agent.heard.index(Heard(sent=1.0))]
        assert [said.session for said in before if said.session < 100] == list(range(100))

    play(story)


def test_a_goodbye_comes_after_all_that_was_said() -> None:
    async def story() -> None:
        wire = Wire(Mood())
        channel = await wire.dial()
        for message in reports(5):
            channel.send(message)
        channel.close()
        await channel.closed()
        await asyncio.sleep(1)
        assert (len(wire.at_server.heard), wire.at_server.over) == (5, True)

    play(story)


def test_a_cut_stream_delays_what_is_said_and_nobody_gets_through_meanwhile() -> None:
    async def story() -> None:
        wire = Wire(Mood())
        channel = await wire.dial()
        wire.network.partition("n1", 10)
        channel.send(reports(1)[0])
        with pytest.raises(TimeoutError):
            await wire.dial()
        await asyncio.sleep(1)
        assert wire.at_server.heard == []
        await asyncio.sleep(9)
        assert len(wire.at_server.heard) == 1

    play(story)


def test_a_broken_stream_carries_nothing_and_both_ends_learn_of_it_in_the_end() -> None:
    async def story() -> None:
        wire = Wire(Mood())
        channel = await wire.dial()
        wire.network.snap("n1")
        channel.send(reports(1)[0])
        await asyncio.wait_for(channel.closed(), 15)
        await asyncio.sleep(15)
        assert (wire.at_server.heard, wire.at_server.over) == ([], True)

    play(story)


def test_a_server_that_crashed_is_missed_and_one_that_is_paused_hears_it_all_later() -> None:
    async def story() -> None:
        wire = Wire(Mood())
        channel = await wire.dial()
        wire.server.paused = True
        for message in reports(20):
            channel.send(message)
        await asyncio.sleep(1)
        assert wire.at_server.heard == []
        wire.network.loop.resume(wire.server)
        await asyncio.sleep(1)
        assert wire.at_server.heard == reports(20)
        wire.server.alive = False
        wire.network.crashed(wire.server)
        await asyncio.wait_for(channel.closed(), 1)

    play(story)
