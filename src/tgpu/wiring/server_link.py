"""Server link: the agent's end of its stream to a server, and the way to a server on the same machine."""

import asyncio
import socket
from functools import lru_cache
from pathlib import Path

from tgpu.agent.channel import Listener
from tgpu.client.errors import UnreachableError
from tgpu.client.server_account import check_account
from tgpu.observe.logs import logger
from tgpu.protocol.framing import from_server
from tgpu.protocol.messages import Elsewhere, FromServer
from tgpu.wiring.framed import Framed

_log = logger("link")


class ServerLink(Framed[FromServer]):
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
