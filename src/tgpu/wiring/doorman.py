"""Who is let in, and when: handshakes are begun a few at a time, so that each of them is soon over.

A handshake of TLS costs a server a millisecond. When ten thousand nodes come at once and all are begun
together, all of them end late: those who wait hang up, come again, and the work was for nothing.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Awaitable, Callable

from tgpu.observe.logs import logger
from tgpu.wiring.connection_limits import ConnectionLimits, Kind, TooManyConnectionsError, Visit, source_of

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
        self,
        listener: socket.socket,
        shake_hands: Callable[[socket.socket, Visit], Awaitable[object]],
        limits: ConnectionLimits,
    ) -> None:
        """`listener`: closed with the door. `shake_hands`: returns when it is done, and has taken the
        connection and its visit over; raises OSError."""
        self._listener, self._shake_hands, self._limits = listener, shake_hands, limits
        self._loop = asyncio.get_running_loop()
        self._mute: dict[socket.socket, asyncio.TimerHandle] = {}
        """Connections that have sent nothing yet."""
        self._visits: dict[socket.socket, Visit] = {}
        """Of all connections whose handshake has not begun."""
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
            self._turn_away(sock)
        while self._waiting:
            self._drop(self._waiting.popleft())
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPT_AT_ONCE):
            try:
                sock, peer = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no more open files: whoever leaves makes room
                _log.error("no connection can be taken", why=str(error))
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(REST_S, self._listen)
                return
            if not self._count(sock, source_of(peer[0])):
                sock.close()
                continue
            sock.setblocking(False)
            self._mute[sock] = self._loop.call_later(SPEAK_WITHIN_S, self._turn_away, sock)
            self._loop.add_reader(sock.fileno(), self._spoke, sock)

    def _count(self, sock: socket.socket, source: str) -> bool:
        def make_way() -> bool:
            self._turn_away(sock)
            return True

        try:
            self._visits[sock] = self._limits.enter(Kind.UNDECIDED, source, make_way)
        except TooManyConnectionsError as error:
            _log.warning("a connection was refused", why=str(error))
            return False
        return True

    def _turn_away(self, sock: socket.socket) -> None:
        self._hear_no_more(sock)
        self._drop(sock)

    def _drop(self, sock: socket.socket) -> None:
        self._visits.pop(sock).leave()
        sock.close()

    def _spoke(self, sock: socket.socket) -> None:
        self._hear_no_more(sock)
        self._visits[sock].stay()
        self._waiting.append(sock)
        self._let_in()

    def _hear_no_more(self, sock: socket.socket) -> None:
        self._mute.pop(sock).cancel()
        self._loop.remove_reader(sock.fileno())

    def _let_in(self) -> None:
        while self._waiting and self._busy < MOST_AT_ONCE:
            sock = self._waiting.popleft()
            if _has_left(sock):
                self._drop(sock)
                continue
            self._busy += 1
            task = self._loop.create_task(self._serve(sock, self._visits.pop(sock)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, sock: socket.socket, visit: Visit) -> None:
        counted = True

        def no_longer_counted() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._busy -= 1
                self._let_in()

        slow = self._loop.call_later(COUNTED_S, no_longer_counted)
        try:
            await self._shake_hands(sock, visit)
        except OSError:  # it went away, or spoke something else
            visit.leave()
        except BaseException:
            visit.leave()
            raise
        finally:
            slow.cancel()
            no_longer_counted()


def _has_left(sock: socket.socket) -> bool:
    """Whether the other side has hung up: what it said is still there to be read."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (_CLOSED, _CLOSE_WAIT)
