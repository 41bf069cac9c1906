"""uvicorn's WebSockets, knowing their peer on a unix socket."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from tgpu.api.peercred import PEER_KEY, Peer, peer_behind

LONGEST_MESSAGE = 256 * 1024
"""The first one may hold a whole command."""


class PeerCredWebSocket(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=…)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever uvicorn hands over
        super().__init__(*args, **kwargs)
        self._peer: Peer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if transport.get_extra_info("socket").family == socket.AF_UNIX:
            self._peer = peer_behind(transport)
        super().connection_made(transport)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self._peer is not None and hasattr(self, "scope"):  # the app starts at the loop's next turn
            self.scope[PEER_KEY] = self._peer  # type: ignore[literal-required]  # our own key in uvicorn's scope
