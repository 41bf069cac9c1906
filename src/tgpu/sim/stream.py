"""The two ends of one stream: real frames, cut anywhere, in a buffer until their process gets round to it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from tgpu.agent.channel import Listener
from tgpu.control.agent_session import Link
from tgpu.protocol.framing import FramingError, Reader, from_agents, from_server
from tgpu.protocol.messages import FromAgent, FromServer, Greeting, Hello
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.trace import Trace
from tgpu.sim.words import in_words


class Carrier(Protocol):
    """What an end needs of the network."""

    loop: SimLoop
    random: Random
    trace: Trace
    on_hello: Callable[[str, int], None]

    def carry(self, sender: "End", message: FromAgent | FromServer) -> None: ...

    def hang_up(self, end: "End") -> None: ...


class Session(Protocol):
    def received(self, message: FromAgent) -> None: ...

    def refused(self, why: str) -> None: ...

    def closed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Server:
    """One server process that listens."""

    incarnation: Incarnation
    url: str
    accept: Callable[[Link], Session]


class End(ABC):
    """Belongs to one life of one process; what arrives after that is lost."""

    def __init__(self, network: Carrier, owner: Incarnation, node_id: str) -> None:
        self._network = network
        self.owner = owner
        self.node_id = node_id
        self.open = True
        self.peer: End = self
        self.broken = False
        self.last_arrival = 0.0
        self.acknowledges = False
        """It has said that it heard the other side: all that it said before was said in order."""
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

    @abstractmethod
    def on_bytes(self, data: bytes) -> None: ...

    @abstractmethod
    def on_over(self) -> None: ...


class AgentEnd(End):
    """The agent's channel."""

    def __init__(self, network: Carrier, owner: Incarnation, node_id: str, listener: Listener) -> None:
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

    def __init__(self, network: Carrier, server: Server, node_id: str) -> None:
        super().__init__(network, server.incarnation, node_id)
        self._reader: Reader[FromAgent] = from_agents()
        self._accept = server.accept
        self._session: Session | None = None

    def accept(self) -> None:
        if self.open:
            self._session = self._accept(self)

    def on_bytes(self, data: bytes) -> None:
        try:
            messages = self._reader.feed(data)
        except FramingError as error:
            self._network.trace.add(self.owner.name, f"refuses {self.node_id}: {error}")
            if self._session is not None:
                self._session.refused(str(error))
            return
        for message in messages:
            self._network.trace.add(self.owner.name, f"hears {self.node_id}: {in_words(message)}")
            if self._session is not None:
                self._session.received(message)

    def on_over(self) -> None:
        if self._session is not None:
            self._session.closed()
