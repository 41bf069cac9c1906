"""A container's own terminal: the engine has it, one connection of this agent's is at its other end.

What is printed there goes to the log and to whoever looks on; what they type goes in. As with a process's
terminal, the container waits for those who look on, but not for one who has not taken anything for a while.
An agent that starts anew attaches again. What was printed meanwhile is in the engine's copy, as far as its
lines were complete; a line that had no end yet is seen when something follows it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path

from aiodocker.stream import Stream

from tgpu.runner import logs
from tgpu.runner.docker.engine import Engine, EngineAwayError, EngineRefusedError, NotThereError
from tgpu.runner.docker.following import NAMES, STDOUT, Follower
from tgpu.runner.docker.states import State
from tgpu.runner.shell_port import Output, Over
from tgpu.runner.terminal import AHEAD, CHUNK, KEPT, PATIENCE_S, SCREENFUL

_SETTLE_S = 0.05
"""Between two pieces that come together."""
_FAREWELL_S = 2.0
"""How long the last that it printed may be under way when it is over."""


class ContainerTerminal:
    """Lives as long as this agent knows of the container; connections to it come and go."""

    def __init__(self, folder: Path, resize: Callable[[int, int], Coroutine[None, None, None]]) -> None:
        """`folder`: of its output, whose end is what somebody who comes is shown first."""
        before = logs.read(folder, NAMES[STDOUT], -KEPT, KEPT)
        self.recent = bytearray(before.data)
        self.seen = before.offset + len(before.data)
        """How much was printed in all; `recent` is the end of it."""
        self.is_over = False
        self.taken = asyncio.Event()
        self._resize = resize
        self._stream: Stream | None = None
        self._connected = asyncio.Event()
        self._viewers: list[Viewer] = []
        self._asides: set[asyncio.Task[None]] = set()

    def attach(self) -> "Viewer":
        viewer = Viewer(self, self.seen - len(self.recent) + self._screenful())
        self._viewers.append(viewer)
        return viewer

    def detach(self, viewer: "Viewer") -> None:
        if viewer in self._viewers:
            self._viewers.remove(viewer)
            self.taken.set()

    def connected(self, stream: Stream | None) -> None:
        """None: not now."""
        self._stream = stream
        if stream is None:
            self._connected.clear()
        else:
            self._connected.set()

    def printed(self, data: bytes) -> None:
        now = asyncio.get_running_loop().time()
        for viewer in self._viewers:
            if viewer.at == self.seen:
                viewer.moved = now  # it had taken everything: from here on it may be slow
            viewer.news.set()
        self.recent += data
        self.seen += len(data)
        if len(self.recent) > 2 * KEPT:
            del self.recent[:-KEPT]

    async def until_followed(self) -> None:
        """Returns when nobody who is worth waiting for is far behind."""
        while behind := [one for one in self._viewers if not one.is_slow and self.seen - one.at > AHEAD]:
            self.taken.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S / 4):
                    await self.taken.wait()
            now = asyncio.get_running_loop().time()
            for viewer in behind:
                viewer.is_slow = now - viewer.moved > PATIENCE_S

    async def type(self, data: bytes) -> None:
        """Waits while there is no connection; whoever types into one that breaks, types in vain."""
        await self._connected.wait()
        if self._stream is not None:
            with contextlib.suppress(OSError, RuntimeError, AssertionError):
                await self._stream.write_in(data)

    def resize(self, rows: int, cols: int) -> None:
        task = asyncio.get_running_loop().create_task(_if_possible(self._resize(rows, cols)))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    def close(self) -> None:
        self.is_over = True
        self._stream = None
        self._connected.set()
        for viewer in self._viewers:
            viewer.news.set()

    def _screenful(self) -> int:
        """Where it begins: behind the end of a line, if something is left out, and so in no character."""
        begin = max(0, len(self.recent) - SCREENFUL)
        if begin == 0 and self.seen == len(self.recent):
            return 0
        line_end = self.recent.find(b"\n", begin)
        return line_end + 1 if line_end >= 0 else begin


class Viewer:
    """Somebody who looks on: see the port of shells."""

    def __init__(self, terminal: ContainerTerminal, at: int) -> None:
        self._terminal = terminal
        self.at = at
        """How much of all output it was given."""
        self.moved = asyncio.get_running_loop().time()
        self.is_slow = False
        self.news = asyncio.Event()

    async def read(self) -> Output | Over:
        terminal = self._terminal
        while self.at >= terminal.seen:
            if terminal.is_over:
                return Over()
            self.news.clear()
            await self.news.wait()
        self.moved, self.is_slow = asyncio.get_running_loop().time(), False
        first = terminal.seen - len(terminal.recent)
        if self.at < first:
            missed, self.at = first - self.at, first
            return Output(STDOUT, f"\r\n[tgpu: {missed} bytes were not shown]\r\n".encode("ascii"))
        piece = bytes(terminal.recent[self.at - first : self.at - first + CHUNK])
        self.at += len(piece)
        terminal.taken.set()
        return Output(STDOUT, piece)

    async def write(self, data: bytes) -> None:
        if data:
            await self._terminal.type(data)

    def resize(self, rows: int, cols: int) -> None:
        self._terminal.resize(rows, cols)

    def close(self) -> None:
        self._terminal.detach(self)


async def follow(
    engine: Engine, name: str, stream: Stream | None, follower: Follower, terminal: ContainerTerminal
) -> None:
    """Until nothing more will come. `stream`: of one that has not run before, from its beginning."""
    while True:
        known = b""
        if stream is None:
            if not await _runs(engine, name):
                await _catch_up(engine, name, follower, terminal)
                return
            stream = await engine.attach(name, terminal=True)
            known = await _catch_up(engine, name, follower, terminal)
        over = asyncio.get_running_loop().create_task(engine.wait(name))
        terminal.connected(stream)
        try:
            await _pass_on(stream, follower, terminal, known, over)
        finally:
            terminal.connected(None)
            over.cancel()
            await asyncio.gather(over, return_exceptions=True)
            await stream.close()
        stream = None
        if not await _runs(engine, name):
            return


async def _runs(engine: Engine, name: str) -> bool:
    inspected = await engine.inspect(name)
    if inspected is None:
        raise NotThereError(0, "its container is gone")
    return State.of(inspected).is_running


async def _catch_up(engine: Engine, name: str, follower: Follower, terminal: ContainerTerminal) -> bytes:
    """Takes over what was printed while nobody was attached; returns the end of that."""
    since = follower.begin_copy()
    skip = follower.end_of(STDOUT) if since == "0" else 0
    tail = b""
    async for data in engine.copy(name, since, follow=False):
        fresh = data[skip:]
        skip = max(0, skip - len(data))
        if fresh:
            _keep(fresh, follower, terminal)
            tail = (tail + fresh)[-KEPT:]
    return tail


async def _pass_on(
    stream: Stream,
    follower: Follower,
    terminal: ContainerTerminal,
    known: bytes,
    over: "asyncio.Task[None]",
) -> None:
    """`known`: the end of what was taken from the engine's copy; the connection may begin with some of it.
    `over`: done when the container is, of which the connection may not tell if it came too late for that."""
    begun = b""
    while known and (more := await _next(stream, _SETTLE_S)):
        begun += more
    if begun:
        overlap = next((n for n in range(min(len(begun), len(known)), 0, -1) if known.endswith(begun[:n])), 0)
        _keep(begun[overlap:], follower, terminal)
    while True:
        reading = asyncio.ensure_future(stream.read_out())
        try:
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait({reading}, timeout=_FAREWELL_S)
            message = reading.result() if reading.done() else None
        finally:
            reading.cancel()
        if message is None:
            return
        for at in range(0, len(message.data), CHUNK):
            _keep(message.data[at : at + CHUNK], follower, terminal)
            await terminal.until_followed()


async def _next(stream: Stream, within_s: float) -> bytes:
    """Empty: nothing comes so soon, or ever."""
    try:
        async with asyncio.timeout(within_s):
            message = await stream.read_out()
    except TimeoutError:
        return b""
    return b"" if message is None else message.data


def _keep(data: bytes, follower: Follower, terminal: ContainerTerminal) -> None:
    follower.printed(STDOUT, data)
    terminal.printed(data)


async def _if_possible(work: Coroutine[None, None, None]) -> None:
    with contextlib.suppress(EngineAwayError, EngineRefusedError):  # it is over, or will be seen to be
        await work
