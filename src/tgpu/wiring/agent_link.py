"""Agent link: the server's end of the stream between an agent and its server, on a unix socket."""

import asyncio
import os
import socket
import struct

from tgpu.control.agent_session import Session
from tgpu.control.hub import Hub
from tgpu.observe.logs import logger
from tgpu.protocol.framing import from_agents
from tgpu.protocol.messages import FromAgent
from tgpu.wiring.framed import Framed

_UCRED = struct.Struct("3i")
_log = logger("link")


def is_of_this_home(transport: asyncio.BaseTransport) -> bool:
    """Whether the other end of a unix socket is the server's own user, or root."""
    peer = transport.get_extra_info("socket")
    _, uid, _ = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid in (0, os.geteuid()):
        return True
    _log.warning("rejected agent connection of another user", uid=uid)
    return False


class AgentLink(Framed[FromAgent]):
    """On a unix socket only the server's own user and root may be agents."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(from_agents())
        self._hub = hub
        self._session: Session | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if is_of_this_home(transport):
            self._session = self._hub.opened(self)
        else:
            transport.close()

    def take(self, message: FromAgent) -> None:
        if self._session is not None:
            self._session.received(message)

    def refuse(self, why: str) -> None:
        if self._session is not None:
            self._session.refused(why)
        else:
            super().refuse(why)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._session is not None:
            self._session.closed()
