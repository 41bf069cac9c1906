"""Listener of a unix socket for all users: admits connections at a bounded rate per uid.

The kernel's queue of a socket is one line for all users, so it must move however fast one of them connects. A
connection beyond its user's rate is taken from the queue at once and waits here, in a line of its user alone;
beyond the length of that line it is closed. Both cost a few microseconds, before anything is made for the
connection. A batch that was mostly closed is followed by a pause, in which a loop of connects waits in the
kernel: so it takes a bounded part of the server's time.
"""

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable

from tgpu.observe.logs import logger

RATE = 250.0
"""Connections per second that one user may open for long; a command line opens one."""
BURST = 500
"""Connections that one user may open at once."""
MOST_DEFERRED = 512
"""Connections of one user beyond the rate that wait; further ones are closed."""
ADMIT_EVERY_S = 0.02
ACCEPT_AT_ONCE = 1024
"""As many as the kernel's queue holds: then a connection waits there for one batch at most."""
REST_S = 0.03
"""After a batch of mostly closed connections."""
OUT_OF_FILES_S = 0.5
"""After the system could not give us another connection."""
_UCRED = struct.Struct("3i")
_log = logger("socket")


class Lane:
    """Connections of one user: a token bucket, and those that wait for a token."""

    __slots__ = ("_at", "_tokens", "is_reported", "waiting")

    def __init__(self, now: float) -> None:
        self._tokens, self._at = float(BURST), now
        self.waiting: deque[socket.socket] = deque()
        self.is_reported = False
        """Whether the log has a line about connections of this burst that were closed."""

    def takes(self, now: float) -> bool:
        """Whether one more may be served now."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def is_idle(self, now: float) -> bool:
        self._refill(now)
        return not self.waiting and self._tokens >= BURST

    def _refill(self, now: float) -> None:
        self._tokens = min(float(BURST), self._tokens + (now - self._at) * RATE)
        self._at = now


class FairListener:
    def __init__(
        self,
        listener: socket.socket,
        serve: Callable[[socket.socket], Awaitable[object]],
        unlimited: frozenset[int] | None = None,
    ) -> None:
        """`listener`: closed with this. `serve`: takes a connection over; raises OSError. `unlimited`: uids
        without a rate; by default root and the server's own user."""
        self._listener, self._serve = listener, serve
        self._unlimited = frozenset({0, os.geteuid()}) if unlimited is None else unlimited
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[int, Lane] = {}
        self._admitting: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = True
        listener.setblocking(False)
        self._listen()

    def close(self) -> None:
        """Connections that are served already stay."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._listener.fileno())  # before it is closed: then it has no number
        self._listener.close()
        if self._admitting is not None:
            self._admitting.cancel()
        for lane in self._lanes.values():
            while lane.waiting:
                lane.waiting.popleft().close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _listen(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _rest(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener.fileno())
        self._loop.call_later(seconds, self._listen)

    def _accept(self) -> None:
        now, closed = self._loop.time(), 0
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no more open files: connections that end make room
                _log.error("no connection can be taken", why=str(error))
                self._rest(OUT_OF_FILES_S)
                return
            sock.setblocking(False)
            closed += not self._take(sock, now)
        if 2 * closed >= ACCEPT_AT_ONCE:
            self._rest(REST_S)

    def _take(self, sock: socket.socket, now: float) -> bool:
        """False: it was closed."""
        _, uid, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if uid in self._unlimited:
            self._begin(sock)
            return True
        lane = self._lanes.get(uid)
        if lane is None:
            lane = self._lanes[uid] = Lane(now)
            self._admit_later()
        if _has_left(sock):
            sock.close()
            return False
        if not lane.waiting and lane.takes(now):
            self._begin(sock)
            return True
        if len(lane.waiting) < MOST_DEFERRED:
            lane.waiting.append(sock)
            return True
        if not lane.is_reported:
            lane.is_reported = True
            _log.warning("connections are closed: their user opens too many", uid=uid, per_second=RATE)
        sock.close()
        return False

    def _admit_later(self) -> None:
        if self._admitting is None:
            self._admitting = self._loop.call_later(ADMIT_EVERY_S, self._admit)

    def _admit(self) -> None:
        """Serves connections that wait, as far as the rates of their users allow."""
        self._admitting = None
        now = self._loop.time()
        for uid, lane in list(self._lanes.items()):
            while lane.waiting and lane.takes(now):
                self._begin(lane.waiting.popleft())
            if lane.is_idle(now):
                del self._lanes[uid]
        if self._lanes:
            self._admit_later()

    def _begin(self, sock: socket.socket) -> None:
        task = self._loop.create_task(self._served(sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _served(self, sock: socket.socket) -> None:
        try:
            await self._serve(sock)
        except OSError:  # it went away
            sock.close()


def _has_left(sock: socket.socket) -> bool:
    """Whether the other side closed it without a word."""
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
