"""The kernel's word on who opened a unix socket, carried into every request's scope.

The key is set by the protocol itself and only on AF_UNIX connections: nothing that a client sends, over
whichever transport, can put it there.
"""

import socket
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from litestar.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tgpu.api.one_write import OneWrite

if TYPE_CHECKING:
    import asyncio

PEER_KEY = "tgpu.peer"
_UCRED = struct.Struct("3i")


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int


def peer_behind(transport: "asyncio.BaseTransport") -> Peer:
    """Of a connection over a unix socket."""
    sock = transport.get_extra_info("socket")
    return Peer(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def peer_of(scope: Scope) -> Peer | None:
    """None when the request did not come over a unix socket."""
    peer: Peer | None = scope.get(PEER_KEY)  # type: ignore[assignment]  # the scope's type does not know our key
    return peer


class PeerCredProtocol(HttpToolsProtocol):
    """uvicorn's protocol, knowing its peer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever uvicorn hands over
        super().__init__(*args, **kwargs)
        self._peer: Peer | None = None

    def connection_made(self, transport: "asyncio.Transport") -> None:  # type: ignore[override]  # as uvicorn
        if transport.get_extra_info("socket").family == socket.AF_UNIX:
            self._peer = peer_behind(transport)
        self._plain = transport
        super().connection_made(OneWrite(transport))

    def handle_websocket_upgrade(self) -> None:
        self.transport = self._plain  # each frame leaves by itself
        super().handle_websocket_upgrade()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._peer is not None:
            self.scope[PEER_KEY] = self._peer  # type: ignore[literal-required]  # our own key in uvicorn's scope
