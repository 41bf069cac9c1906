"""Shells of processes, from the agent's side: a program that was let in, and an attempt's own terminal."""

import asyncio
import contextlib
import os
import socket
from collections import deque
from collections.abc import Iterable

from tgpu.runner import calls
from tgpu.runner.place import take_frame
from tgpu.runner.shell_port import CHUNK, STDOUT, Output, Over, ShellRefusedError
from tgpu.runner.terminal import set_size

WELCOME_S = 5.0
SIGNALLED = 128


class Line:
    """The connection to a supervisor, in whole messages."""

    def __init__(self, conn: socket.socket) -> None:
        conn.setblocking(False)
        self._conn = conn
        self._buffer = bytearray()
        self._heard: deque[tuple[bytes, bytes]] = deque()
        self._sending = False
        self._afterwards = b""
        self.is_over = False

    def fileno(self) -> int:
        return self._conn.fileno()

    async def send(self, message: bytes, ends: Iterable[int] = ()) -> None:
        """Whoever is gone takes nothing: that is seen where it is listened to."""
        ends = list(ends)
        loop = asyncio.get_running_loop()
        self._sending = True
        with contextlib.suppress(OSError):
            if ends:
                sent = socket.send_fds(self._conn, [message[: calls.HEAD]], ends)
                message = message[sent:]
            await loop.sock_sendall(self._conn, message)
            while self._afterwards:
                message, self._afterwards = self._afterwards, b""
                await loop.sock_sendall(self._conn, message)
        self._sending = False

    def slip_in(self, message: bytes) -> None:
        """Without waiting: after what is being sent, where only the newest such message counts."""
        if self._sending:
            self._afterwards = message
            return
        with contextlib.suppress(OSError):
            self._conn.send(message)

    async def welcome(self) -> None:
        """Raises ShellRefusedError with the supervisor's words."""
        try:
            async with asyncio.timeout(WELCOME_S):
                heard = await self.hear()
        except TimeoutError:
            raise ShellRefusedError("its supervisor does not answer: its node is very busy") from None
        if heard is None:
            raise ShellRefusedError("it has just ended")
        if heard[0] == calls.REFUSED:
            raise ShellRefusedError(heard[1].decode(errors="replace"))

    async def hear(self) -> tuple[bytes, bytes] | None:
        """The next message; None once there is none any more."""
        while not self._heard and not self.is_over:
            try:
                data = await asyncio.get_running_loop().sock_recv(self._conn, 2 * CHUNK)
            except OSError:
                data = b""
            self._fed(data)
        return self._heard.popleft() if self._heard else None

    def hear_now(self) -> list[tuple[bytes, bytes]]:
        """What has arrived."""
        try:
            self._fed(self._conn.recv(2 * CHUNK))
        except BlockingIOError:
            pass
        except OSError:
            self.is_over = True
        heard, self._heard = list(self._heard), deque()
        return heard

    def _fed(self, data: bytes) -> None:
        self.is_over = not data
        self._buffer += data
        while (taken := take_frame(self._buffer)) is not None:
            self._heard.append((taken[0], taken[1][calls.HEAD :]))

    def close(self) -> None:
        self._conn.close()


class AttachedShell:
    """An attempt's own terminal: the supervisor passes on what is printed and typed."""

    def __init__(self, line: Line) -> None:
        self._line = line

    async def read(self) -> Output | Over:
        while (heard := await self._line.hear()) is not None:
            if heard[0] == calls.OUTPUT:
                return Output(STDOUT, heard[1])
        return Over()

    async def write(self, data: bytes) -> None:
        if data:
            await self._line.send(calls.packed(calls.INPUT, data))

    def resize(self, rows: int, cols: int) -> None:
        self._line.slip_in(calls.packed(calls.RESIZE, calls.packed_size(rows, cols)))

    def close(self) -> None:
        self._line.close()


class EnteredShell:
    """A program inside an attempt. Its ends are here; the supervisor says how it ended."""

    def __init__(self, line: Line, typed: int, printed: dict[int, int], *, tty: bool) -> None:
        """`printed`: which stream each of the ends is that it prints to."""
        self._line = line
        self._typed = typed
        self._printed = printed
        self._tty = tty
        self._code: int | None = None
        self._detail = ""
        self._is_over = False

    async def read(self) -> Output | Over:
        while True:
            for end in list(self._printed):
                data = self._take(end)
                if data:
                    self._printed[end] = self._printed.pop(end)  # the other one is next
                    return Output(self._printed[end], data)
            if self._is_over:
                return Over(self._code, self._detail)
            if not self._listen():
                await self._something()

    def _take(self, end: int) -> bytes:
        """Empty: nothing is there now."""
        try:
            data = os.read(end, CHUNK)
        except BlockingIOError:
            return b""
        except OSError:  # of a terminal: its last user is gone
            data = b""
        if not data:
            del self._printed[end]
            os.close(end)
        return data

    def _listen(self) -> bool:
        """Whether it is over: what leftovers of the program print after its end, nobody waits for."""
        for kind, body in self._line.hear_now():
            if kind == calls.REFUSED:
                self._detail = body.decode(errors="replace")
            elif kind == calls.EXITED:
                code = int(body)
                self._code, self._is_over = SIGNALLED - code if code < 0 else code, True
        if self._line.is_over and not self._is_over:
            self._detail, self._is_over = "it ended with its job", True
        return self._is_over

    async def _something(self) -> None:
        """Until there is something to read."""
        await _ready(readable=(*self._printed, self._line.fileno()))

    async def write(self, data: bytes) -> None:
        if not data and not self._tty:
            self._close_typed()
        rest = memoryview(data)
        while rest and self._typed >= 0 and not self._is_over:
            try:
                rest = rest[os.write(self._typed, rest) :]
            except BlockingIOError:
                await _ready(writable=(self._typed,))
            except OSError:  # it has closed its stdin, or is gone
                self._close_typed()

    def resize(self, rows: int, cols: int) -> None:
        if self._tty and self._typed >= 0:
            with contextlib.suppress(OSError):
                set_size(self._typed, rows, cols)

    def _close_typed(self) -> None:
        if self._typed >= 0:
            os.close(self._typed)
            self._typed = -1

    def close(self) -> None:
        self._close_typed()
        for end in self._printed:
            os.close(end)
        self._printed.clear()
        self._line.close()


async def _ready(*, readable: Iterable[int] = (), writable: Iterable[int] = ()) -> None:
    """Returns when one of them is."""
    loop = asyncio.get_running_loop()
    woken = asyncio.Event()
    watched = [(fd, loop.add_reader, loop.remove_reader) for fd in readable]
    watched += [(fd, loop.add_writer, loop.remove_writer) for fd in writable]
    try:
        for fd, watch, _ in watched:
            watch(fd, woken.set)
        await woken.wait()
    finally:
        for fd, _, let_go in watched:
            let_go(fd)
