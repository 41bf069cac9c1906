"""The stream between an agent and its server, on a real socket: both ends of it."""

import asyncio
import os
import socket
import struct
from functools import lru_cache
from pathlib import Path

from tgpu.agent.channel import Listener
from tgpu.client.errors import UnreachableError
from tgpu.client.server_account import check_account
from tgpu.control.agent_session import Session
from tgpu.control.hub import Hub
from tgpu.observe.logs import logger
from tgpu.protocol.framing import from_agents, from_server
from tgpu.protocol.messages import Elsewhere, FromAgent, FromServer
from tgpu.wiring.framed import Framed

_UCRED = struct.Struct("3i")
_log = logger("link")


def is_of_this_home(transport: asyncio.BaseTransport) -> bool:
    """Whether the other end of a unix socket is the server's own user, or root."""
    peer = transport.get_extra_info("socket")
    _, uid, _ = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    if uid in (0, os.geteuid()):
        return True
    _log.warning("a stranger tried to be an agent", uid=uid)
    return False


class AgentLink(Framed[FromAgent]):
    """The server's end. On a unix socket only the server's own user and root may be agents."""

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


class ServerLink(Framed[FromServer]):
    """The agent's end."""

    def __init__(self, listener: Listener) -> None:
        super().__init__(from_server())
        self._listener = listener

    def take(self, message: FromServer) -> None:
        if isinstance(message, Elsewhere) and message.why:
            _report_once(message.why)
        self._listener.received(message)


@lru_cache(maxsize=16)
def _report_once(why: str) -> None:
    """An agent that waits for approval comes again every few seconds."""
    _log.warning("the server does not take this node yet", why=why)


class UnixDial:
    """Connects an agent to the server on the same machine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def __call__(self, listener: Listener) -> ServerLink:
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, str(self.path))
            check_account(sock, self.path, str(self.path))
            _, link = await loop.create_unix_connection(lambda: ServerLink(listener), sock=sock)
        except UnreachableError as error:
            sock.close()
            raise PermissionError(str(error)) from None
        except BaseException:
            sock.close()
            raise
        return link
