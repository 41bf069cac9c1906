"""The kernel's word on who opened a unix socket, carried into every request's scope.

The key is set by the protocol itself and only on AF_UNIX connections: nothing that a client sends, over
whichever transport, can put it there.
"""

import errno
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tgpu.api.one_write import OneWrite
from tgpu.domain.ids import AttemptId
from tgpu.runner.process_origin import Origin, origins_of

if TYPE_CHECKING:
    import asyncio

PEER_KEY = "tgpu.peer"
_UCRED = struct.Struct("3i")
_SO_PEERPIDFD = 77  # which Python does not name yet


class Peer(NamedTuple):
    pid: int
    uid: int
    gid: int
    origins: tuple[Origin, ...] = ()
    """The jobs that its process belongs to."""
    is_gone: bool = False
    """It is not known what its process belongs to: it ended before, or has too many ancestors."""

    def attempt_in(self, cluster_id: str) -> AttemptId | None:
        found = [origin.attempt for origin in self.origins if origin.cluster_id == cluster_id]
        return AttemptId.parse(found[-1]) if found else None


def peer_behind(transport: "asyncio.BaseTransport") -> Peer:
    """Of a connection over a unix socket."""
    sock = transport.get_extra_info("socket")
    peer = Peer(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))
    if not peer.pid:  # of another container: no job of this machine's agents
        return peer
    try:
        with _held(sock) as is_there:
            origins = tuple(origins_of(peer.pid))
            return peer._replace(origins=origins, is_gone=not is_there())
    except ProcessLookupError:
        return peer._replace(is_gone=True)


@contextmanager
def _held(sock: socket.socket) -> Iterator[Callable[[], bool]]:
    """Meanwhile it can be asked whether the peer's process is still the same. Where the kernel is older than
    6.5, a pid that is used again at this very moment goes unnoticed. Raises ProcessLookupError."""
    try:
        pidfd = int.from_bytes(sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD, 4), sys.byteorder)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise ProcessLookupError from error
        yield lambda: True
        return
    try:
        yield lambda: _is_there(pidfd)
    finally:
        os.close(pidfd)


def _is_there(pidfd: int) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def peer_of(scope: Scope) -> Peer | None:
    """None when the request did not come over a unix socket."""
    peer: Peer | None = scope.get(PEER_KEY)  # the scope's type does not know our key
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
