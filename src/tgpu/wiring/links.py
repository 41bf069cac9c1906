"""The stream between an agent and its server, on a real socket: both ends of it."""

import asyncio
import os
import socket
import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Generic, TypeVar, cast

from tgpu.agent.channel import Listener
from tgpu.control.hub import Hub, Session
from tgpu.observe.logs import logger
from tgpu.protocol.framing import FramingError, Reader, encode, from_agents, from_server
from tgpu.protocol.messages import FromAgent, FromServer

_UCRED = struct.Struct("3i")
T = TypeVar("T")
_log = logger("link")


class _Framed(asyncio.Protocol, ABC, Generic[T]):
    """Cuts the byte stream into messages; a peer that speaks something else is cut off."""

    def __init__(self, reader: Reader[T]) -> None:
        self._reader = reader
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._reader.feed(data):
                self.take(message)
        except FramingError as error:
            _log.warning("a stream was cut", why=str(error))
            self.close()

    @abstractmethod
    def take(self, message: T) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        self._transport = None
        if not self._over.done():
            self._over.set_result(None)

    def send(self, message: FromAgent | FromServer) -> None:
        """What is said in one turn of the loop leaves together, and wakes the other side once."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(encode(message))

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.write(b"".join(unsent))

    def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()

    async def closed(self) -> None:
        await asyncio.shield(self._over)


class AgentLink(_Framed[FromAgent]):
    """The server's end. On a unix socket only the server's own user and root may be agents."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(from_agents())
        self._hub = hub
        self._session: Session | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        _, uid, _ = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if uid not in (0, os.geteuid()):
            _log.warning("a stranger tried to be an agent", uid=uid)
            transport.close()
            return
        self._session = self._hub.opened(self)

    def take(self, message: FromAgent) -> None:
        if self._session is not None:
            self._session.received(message)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._session is not None:
            self._session.closed()


class ServerLink(_Framed[FromServer]):
    """The agent's end."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(from_server())
        self._listener = listener

    def take(self, message: FromServer) -> None:
        self._listener.received(message)


class UnixDial:
    """Connects an agent to the server on the same machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self, listener: Listener) -> ServerLink:
        loop = asyncio.get_running_loop()
        _, link = await loop.create_unix_connection(lambda: ServerLink(listener), str(self._path))
        return link
