"""The agent's way into an attempt: it calls the supervisor, and makes a shell of what comes of that."""

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tgpu.runner import calls
from tgpu.runner.entered import AttachedShell, EnteredShell, Line
from tgpu.runner.journal import Claim
from tgpu.runner.shell_port import STDERR, STDOUT, Shell, ShellOrder, ShellRefusedError
from tgpu.runner.terminal import set_size

ANSWER_S = 5.0
RING_AGAIN_S = 1.0


class Entrances:
    """Of all attempts of one runner; one call at a time for each of them."""

    def __init__(self, folder: Path, running: Callable[[str], Claim | None]) -> None:
        """`running`: who supervises an attempt, if it runs here."""
        self._folder = folder / calls.FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._running = running
        self._locks: dict[str, asyncio.Lock] = {}
        self._waiting = Counter[str]()

    async def open(self, order: ShellOrder) -> Shell:
        """Raises ShellRefusedError."""
        line = await self._called(order.attempt)
        try:
            shell = await (_enter(line, order) if order.command else _attach(line, order))
        except BaseException:
            line.close()
            raise
        return shell

    async def _called(self, attempt: str) -> Line:
        lock = self._locks.setdefault(attempt, asyncio.Lock())
        self._waiting[attempt] += 1
        try:
            async with lock:
                return Line(await self._call(attempt))
        finally:
            self._waiting[attempt] -= 1
            if not self._waiting[attempt]:
                del self._waiting[attempt], self._locks[attempt]

    async def _call(self, attempt: str) -> socket.socket:
        """The supervisor's connection."""
        loop = asyncio.get_running_loop()
        path = self._folder / attempt
        try:
            listener = _listen(self._folder, attempt)
        except OSError as error:
            raise ShellRefusedError(f"its node cannot make a socket: {error.strerror}") from error
        ringing = asyncio.create_task(self._ring(attempt))
        accepting = asyncio.ensure_future(loop.sock_accept(listener))
        try:
            await asyncio.wait({ringing, accepting}, return_when=asyncio.FIRST_COMPLETED)
            if ringing.done():
                await ringing
            return (await accepting)[0]
        finally:
            for task in (ringing, accepting):
                task.cancel()
            await asyncio.gather(ringing, accepting, return_exceptions=True)
            listener.close()
            path.unlink(missing_ok=True)

    async def _ring(self, attempt: str) -> None:
        """Again and again: a signal may come before the supervisor has got so far that it looks."""
        deadline = asyncio.get_running_loop().time() + ANSWER_S
        while asyncio.get_running_loop().time() < deadline:
            claim = self._running(attempt)
            if claim is None or not claim.is_alive():
                raise ShellRefusedError(f"{attempt} does not run on its node any more")
            claim.send(signal.SIGUSR1)
            await asyncio.sleep(RING_AGAIN_S)
        raise ShellRefusedError(
            f"the supervisor of {attempt} does not answer: it was started by an older version, or its node "
            "is very busy"
        )


def _listen(folder: Path, attempt: str) -> socket.socket:
    """Through the folder's descriptor, because a socket's path may have only 107 bytes."""
    (folder / attempt).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    where = os.open(folder, os.O_PATH)
    try:
        listener.setblocking(False)
        listener.bind(f"/proc/self/fd/{where}/{attempt}")
        listener.listen(1)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(where)
    return listener


async def _attach(line: Line, order: ShellOrder) -> Shell:
    await line.send(calls.packed(calls.ATTACH))
    await line.welcome()
    shell = AttachedShell(line)
    shell.resize(order.rows, order.cols)
    return shell


async def _enter(line: Line, order: ShellOrder) -> Shell:
    ours, theirs = _terminal_ends(order) if order.tty else _pipe_ends()
    shell = EnteredShell(line, ours[0], dict(zip(ours[1:], (STDOUT, STDERR), strict=False)), tty=order.tty)
    try:
        words = calls.packed_program(order.command, tty=order.tty, term=order.term)
        message = calls.packed(calls.ENTER, words)
        try:
            await line.send(message, theirs)
        finally:
            for end in theirs:
                os.close(end)
        await line.welcome()
    except BaseException:
        shell.close()
        raise
    return shell


def _terminal_ends(order: ShellOrder) -> tuple[list[int], list[int]]:
    """Ours, for stdin and stdout; and the program's, which is all three in one."""
    master, slave = os.openpty()
    set_size(master, order.rows, order.cols)
    os.set_blocking(master, False)
    return [master, os.dup(master)], [slave]


def _pipe_ends() -> tuple[list[int], list[int]]:
    stdin, typed = os.pipe()
    printed, stdout = os.pipe()
    complained, stderr = os.pipe()
    ours = [typed, printed, complained]
    for end in ours:
        os.set_blocking(end, False)
    return ours, [stdin, stdout, stderr]
