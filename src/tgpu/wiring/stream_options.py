"""How long streams over TCP are held up by somebody who is not there any more."""

import asyncio
import socket

GOODBYE_S = 1.0
"""How long a TLS stream that is being closed waits for the other side's goodbye."""
_KEEPALIVE_S = 15
_DEAD_AFTER_MS = 45_000


def notice_death(transport: asyncio.BaseTransport) -> None:
    """A machine that vanished sends no reset: its streams end all the same."""
    sock = transport.get_extra_info("socket")
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEPALIVE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
