"""uvicorn's WebSockets, knowing their peer on a unix socket."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame
from websockets.http11 import Request

from tgpu.api.peercred import PEER_KEY, Peer, peer_behind

LONGEST_MESSAGE = 256 * 1024
"""The first one may hold a whole command."""
MOST_FRAGMENTS = 1024
"""Of one message: empty ones cost memory, too."""
MOST_UNSENT = 1024 * 1024
"""Answers to pings of a client that reads none of them."""
STALLED_S = 30.0
"""How long a client may read nothing although there is something to read."""
_TOO_BIG = 1009


def _nothing() -> None:
    """Of a connection that is not counted."""


class PeerCredWebSocket(WebSocketsSansIOProtocol):
    """For `uvicorn.Config(ws=…)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever uvicorn hands over
        super().__init__(*args, **kwargs)
        self._peer: Peer | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self.on_closed: Callable[[], None] = _nothing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if transport.get_extra_info("socket").family == socket.AF_UNIX:
            self._peer = peer_behind(transport)
        super().connection_made(transport)

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if self._peer is not None and hasattr(self, "scope"):  # the app starts at the loop's next turn
            self.scope[PEER_KEY] = self._peer  # type: ignore[literal-required]  # our own key in uvicorn's scope

    async def send(self, message: Any) -> None:  # noqa: ANN401  one of many shapes
        await super().send(message)
        if message["type"] == "websocket.http.response.body":
            self.handshake_complete = True  # with a refusal; else uvicorn logs each as an error

    def data_received(self, data: bytes) -> None:
        if self._transport.get_write_buffer_size() > MOST_UNSENT:
            self._transport.abort()
        else:
            super().data_received(data)

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > MOST_FRAGMENTS:
            self.conn.fail(_TOO_BIG, "too many fragments")
            self.handle_parser_exception()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_S, self._transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_stalled()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_stalled()
        self.on_closed()
        super().connection_lost(exc)

    def _stop_stalled(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    @property
    def _transport(self) -> asyncio.Transport:
        return self.transport
