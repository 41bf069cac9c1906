"""Who is let in, and when: handshakes are begun a few at a time, so that each of them is soon over.

A handshake of TLS costs a server a millisecond. When ten thousand nodes come at once and all are begun
together, all of them end late: those who wait hang up, come again, and the work was for nothing.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from tgpu.observe.logs import logger

MOST_AT_ONCE = 128
"""Handshakes on which work is done: enough for nodes that are a tenth of a second away."""
COUNTED_S = 1.0
"""For so long one is counted; who takes longer is slow itself, and holds nobody else up."""
SPEAK_WITHIN_S = 30.0
"""From the connection to its first word; as long as a whole handshake may take."""
ACCEPT_AT_ONCE = 256
REST_S = 0.5
"""After the system could not give us another connection."""
_CLOSED, _CLOSE_WAIT = 7, 8
"""States of TCP, as Linux numbers them, in which the other side has gone."""
_log = logger("door")


class Doorman:
    """Takes every call at once; the one who called first and has spoken is served first."""

    def __init__(
        self, listener: socket.socket, shake_hands: Callable[[socket.socket], Awaitable[object]]
    ) -> None:
        """`listener`: closed with the door. `shake_hands`: returns when it is done, and has taken the
        connection over; raises OSError."""
        self._listener, self._shake_hands = listener, shake_hands
        self._loop = asyncio.get_running_loop()
        self._mute: dict[socket.socket, asyncio.TimerHandle] = {}
        """Those who have called and not said a word."""
        self._waiting: deque[socket.socket] = deque()
        self._busy = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = True
        self._listen()

    def _listen(self) -> None:
        if self._is_open:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Nobody is let in any more, nor waits to be; who is inside stays."""
        if not self._is_open:
            return
        self._is_open = False
        self._loop.remove_reader(self._listener.fileno())  # before it is closed: then it has no number
        self._listener.close()
        for sock in list(self._mute):
            self._hear_no_more(sock)
            sock.close()
        while self._waiting:
            self._waiting.popleft().close()
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no more open files: whoever leaves makes room
                _log.error("no connection can be taken", why=str(error))
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(REST_S, self._listen)
                return
            sock.setblocking(False)
            self._mute[sock] = self._loop.call_later(SPEAK_WITHIN_S, self._turn_away, sock)
            self._loop.add_reader(sock.fileno(), self._spoke, sock)

    def _turn_away(self, sock: socket.socket) -> None:
        self._hear_no_more(sock)
        sock.close()

    def _spoke(self, sock: socket.socket) -> None:
        self._hear_no_more(sock)
        self._waiting.append(sock)
        self._let_in()

    def _hear_no_more(self, sock: socket.socket) -> None:
        self._mute.pop(sock).cancel()
        self._loop.remove_reader(sock.fileno())

    def _let_in(self) -> None:
        while self._waiting and self._busy < MOST_AT_ONCE:
            sock = self._waiting.popleft()
            if _has_left(sock):
                sock.close()
                continue
            self._busy += 1
            task = self._loop.create_task(self._serve(sock))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket) -> None:
        counted = True

        def no_longer_counted() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._busy -= 1
                self._let_in()

        slow = self._loop.call_later(COUNTED_S, no_longer_counted)
        try:
            with contextlib.suppress(OSError):  # it went away, or spoke something else
                await self._shake_hands(sock)
        finally:
            slow.cancel()
            no_longer_counted()


def _has_left(sock: socket.socket) -> bool:
    """Whether the other side has hung up: what it said is still there to be read."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (_CLOSED, _CLOSE_WAIT)
