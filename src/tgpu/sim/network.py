"""The network between agents and servers: late, cut off, half-open, and in a bad mood unruly as well."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVarTuple

from tgpu.agent.channel import Listener
from tgpu.protocol.framing import encode
from tgpu.protocol.messages import Acknowledge, FromAgent, FromServer, Heard, Orders, Report
from tgpu.sim.chance import happens
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.stream import AgentEnd, End, Server, ServerEnd
from tgpu.sim.trace import Trace

REPEATABLE = (Orders, Acknowledge, Report)
"""What the protocol says again until it is confirmed: only these may be lost or disordered on their own."""
DIAL_TIMEOUT_S = 5.0
Ts = TypeVarTuple("Ts")


@dataclass(slots=True)
class Mood:
    """How bad the network is; a fair one loses and disorders nothing, as a stream does."""

    slowest_s: float = 0.05
    unruly: bool = False


class Network:
    def __init__(
        self,
        loop: SimLoop,
        random: Random,
        trace: Trace,
        mood: Mood,
        on_hello: Callable[[str, int], None],
    ) -> None:
        self.loop = loop
        self.on_hello = on_hello
        self.random = random
        self.trace = trace
        self.mood = mood
        self.servers: list[Server] = []
        """Those who listen, the newest last."""
        self._streams: list[tuple[AgentEnd, ServerEnd]] = []
        self._cut_until: dict[str, float] = {}

    async def dial(
        self, owner: Incarnation, node_id: str, listener: Listener, url: str | None = None
    ) -> AgentEnd:
        """`url`: the server to be called; else whichever answers."""
        await asyncio.sleep(self._delay())
        if self._cut_s(node_id) > 0:
            await asyncio.sleep(min(self._cut_s(node_id), DIAL_TIMEOUT_S))
            raise TimeoutError("nobody answers")
        if not self.servers:
            raise ConnectionRefusedError("nobody listens")
        meant = [server for server in self.servers if server.url == url]
        stray = self.mood.unruly and happens(self.random, 0.2)  # it finds another one
        if url is not None and not meant and not stray:
            raise ConnectionRefusedError("nobody listens there")
        server = self.random.choice(self.servers if stray or not meant else meant)
        agent_end, server_end = AgentEnd(self, owner, node_id, listener), ServerEnd(self, server, node_id)
        agent_end.peer, server_end.peer = server_end, agent_end
        self._streams.append((agent_end, server_end))
        self.loop.call_soon(server_end.accept, context=server.incarnation.context)
        return agent_end

    def carry(self, sender: End, message: FromAgent | FromServer) -> None:
        if sender.broken:  # the other side answers with a reset once it is reached
            self.loop.outside(self._cut_s(sender.node_id) + self._delay(), sender.lost)
            return
        frame = encode(message)
        if not self._may_be_disordered(sender, message):
            self._in_order(sender, frame)
        elif not happens(self.random, 0.1):  # otherwise it is lost
            for _ in range(self.random.choice((1, 1, 1, 2))):
                late = self.random.choice((0.0, 0.0, 0.1, 4.0)) * self.random.random()
                wait = self._cut_s(sender.node_id) + self._delay() + late
                self.loop.outside(wait, sender.peer.arrived, frame)

    def _may_be_disordered(self, sender: End, message: FromAgent | FromServer) -> bool:
        """Who acknowledges a heartbeat says by it that what was ordered until then has come first."""
        sender.acknowledges |= isinstance(message, Heard)
        if isinstance(message, Orders) and not sender.acknowledges:
            return False
        return self.mood.unruly and isinstance(message, REPEATABLE)

    def _in_order(self, sender: End, frame: bytes) -> None:
        self._after_the_last(sender, sender.peer.arrived, frame)

    def _after_the_last(self, sender: End, what: Callable[[*Ts], None], *args: *Ts) -> None:
        peer = sender.peer
        due = self.loop.time() + self._cut_s(sender.node_id) + self._delay()
        peer.last_arrival = max(due, peer.last_arrival + 1e-6)
        self.loop.outside(peer.last_arrival - self.loop.time(), what, *args)

    def hang_up(self, end: End) -> None:
        """A proper goodbye: the other side learns of it after all that was said."""
        if not end.broken:
            self._after_the_last(end, end.peer.lost)

    def crashed(self, incarnation: Incarnation) -> None:
        """The process is gone and its kernel says so."""
        for end in self._ends_of(incarnation):
            end.open = False
            self.hang_up(end)

    def vanished(self, incarnation: Incarnation) -> None:
        """The whole machine is gone, and nobody says so."""
        for end in self._ends_of(incarnation):
            end.open = False
            self._break(end)

    def partition(self, node_id: str, seconds: float) -> None:
        self._cut_until[node_id] = self.loop.time() + seconds

    def is_cut_off(self, node_id: str) -> bool:
        return self._cut_s(node_id) > 0

    def snap(self, node_id: str) -> None:
        """Its stream breaks; each end learns of it when it does."""
        for agent_end, server_end in self._streams:
            if agent_end.node_id == node_id and (agent_end.open or server_end.open):
                self._break(agent_end)

    def garble(self, node_id: str, frame: bytes) -> None:
        """Its server hears something that no correct agent says."""
        for _, server_end in self._streams:
            if server_end.node_id == node_id:
                server_end.arrived(frame)

    def calm(self) -> None:
        self.mood = Mood()
        self._cut_until.clear()

    def _ends_of(self, incarnation: Incarnation) -> list[End]:
        mine: list[End] = [
            end for stream in self._streams for end in stream if end.owner is incarnation and end.open
        ]
        self._streams = [(a, b) for a, b in self._streams if a.open or b.open]
        return mine

    def _break(self, end: End) -> None:
        for side in (end, end.peer):
            side.broken = True
            longest = self.random.choice((0.2, 1.0, 12.0))
            self.loop.outside(self.random.uniform(0, longest), side.lost)

    def _cut_s(self, node_id: str) -> float:
        return max(0.0, self._cut_until.get(node_id, 0.0) - self.loop.time())

    def _delay(self) -> float:
        return self.random.uniform(0.0001, self.mood.slowest_s)
