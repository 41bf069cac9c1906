"""The network between agents and servers: late, cut off, half-open, and in a bad mood unruly as well."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVarTuple

from tgpu.agent.channel import Listener
from tgpu.control.hub import Link
from tgpu.protocol.framing import Reader, encode, from_agents, from_server
from tgpu.protocol.messages import Acknowledge, FromAgent, FromServer, Greeting, Hello, Orders, Report
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.trace import Trace
from tgpu.sim.words import in_words

REPEATABLE = (Orders, Acknowledge, Report)
"""What the protocol says again until it is confirmed: only these may be lost or disordered on their own."""
DIAL_TIMEOUT_S = 5.0
Ts = TypeVarTuple("Ts")


class Session(Protocol):
    def received(self, message: FromAgent) -> None: ...

    def closed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Server:
    """One server process that listens."""

    incarnation: Incarnation
    accept: Callable[[Link], Session]


@dataclass(slots=True)
class Mood:
    """How bad the network is; a fair one loses and disorders nothing, as a stream does."""

    slowest_s: float = 0.05
    unruly: bool = False


class End:
    """One end of one stream; what arrives waits in its buffer until its process gets round to it."""

    def __init__(self, network: "Network", owner: Incarnation, node_id: str) -> None:
        self._network = network
        self.owner = owner
        self.node_id = node_id
        self.open = True
        self.peer: End = self
        self.broken = False
        self.last_arrival = 0.0
        self._buffer = bytearray()

    def send(self, message: FromAgent | FromServer) -> None:
        if self.open:
            self._network.carry(self, message)

    def close(self) -> None:
        if self.open:
            self.lost()
            self._network.hang_up(self)

    def lost(self) -> None:
        """The stream is over, as far as this end can see."""
        if self.open:
            self.open = False
            self._network.loop.call_soon(self.on_over, context=self.owner.context)

    def arrived(self, frame: bytes) -> None:
        if self.open and not self.broken:
            self._buffer += frame
            self._network.loop.call_soon(self._drain, context=self.owner.context)

    def _drain(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        if data and self.open:
            cut = self._network.random.randrange(len(data))
            for part in (data[:cut], data[cut:]):
                self.on_bytes(part)

    def on_bytes(self, data: bytes) -> None:
        raise NotImplementedError

    def on_over(self) -> None:
        raise NotImplementedError


class AgentEnd(End):
    """The agent's channel."""

    def __init__(self, network: "Network", owner: Incarnation, node_id: str, listener: Listener) -> None:
        super().__init__(network, owner, node_id)
        self._reader: Reader[FromServer] = from_server()
        self._listener = listener
        self._over: asyncio.Future[None] = network.loop.create_future()
        self._epoch = 0

    def send(self, message: FromAgent | FromServer) -> None:
        if isinstance(message, Hello):
            self._network.on_hello(self.owner.name, self._epoch)
        super().send(message)

    def on_bytes(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._network.trace.add(self.owner.name, f"hears {in_words(message)}")
            if isinstance(message, Greeting):
                self._epoch = message.epoch
            self._listener.received(message)

    def on_over(self) -> None:
        self._over.set_result(None)

    async def closed(self) -> None:
        await asyncio.shield(self._over)


class ServerEnd(End):
    """The hub's link."""

    def __init__(self, network: "Network", server: Server, node_id: str) -> None:
        super().__init__(network, server.incarnation, node_id)
        self._reader: Reader[FromAgent] = from_agents()
        self._accept = server.accept
        self._session: Session | None = None

    def accept(self) -> None:
        if self.open:
            self._session = self._accept(self)

    def on_bytes(self, data: bytes) -> None:
        for message in self._reader.feed(data):
            self._network.trace.add(self.owner.name, f"hears {self.node_id}: {in_words(message)}")
            if self._session is not None:
                self._session.received(message)

    def on_over(self) -> None:
        if self._session is not None:
            self._session.closed()


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

    async def dial(self, owner: Incarnation, node_id: str, listener: Listener) -> AgentEnd:
        await asyncio.sleep(self._delay())
        if self._cut_s(node_id) > 0:
            await asyncio.sleep(min(self._cut_s(node_id), DIAL_TIMEOUT_S))
            raise TimeoutError("nobody answers")
        if not self.servers:
            raise ConnectionRefusedError("nobody listens")
        stray = self.mood.unruly and self.random.random() < 0.2  # noqa: PLR2004  one in five finds an old server
        server = self.random.choice(self.servers) if stray else self.servers[-1]
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
        if not (self.mood.unruly and isinstance(message, REPEATABLE)):
            self._in_order(sender, frame)
        elif self.random.random() > 0.1:  # noqa: PLR2004  one in ten is lost
            for _ in range(self.random.choice((1, 1, 1, 2))):
                late = self.random.choice((0.0, 0.0, 0.1, 4.0)) * self.random.random()
                wait = self._cut_s(sender.node_id) + self._delay() + late
                self.loop.outside(wait, sender.peer.arrived, frame)

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

    def snap(self, node_id: str) -> None:
        """Its stream breaks; each end learns of it when it does."""
        for agent_end, server_end in self._streams:
            if agent_end.node_id == node_id and (agent_end.open or server_end.open):
                self._break(agent_end)

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
