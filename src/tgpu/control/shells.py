"""The leader's switchboard: shells on agents' streams, by number, for whichever server their users came to.

A server asks for what a shell has said, again and again; one that has not asked for a while is gone, and so
is the shell. Nothing here is remembered: with its leader, or its agent's stream, a shell is over.
"""

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from tgpu.protocol.messages import FromServer
from tgpu.protocol.shells import (
    WINDOW,
    CloseShell,
    FromShell,
    OpenShell,
    ShellOpened,
    ShellOutput,
    ShellOver,
    ToShell,
)

OPENING_S = 12.0
"""Longer than an agent waits for a supervisor."""
UNASKED_S = 30.0
MOST_KEPT = 2 * WINDOW
"""An agent that sends more than its window does not know the rules."""
NUMBER_BITS = 52
GONE = "the connection to its node broke"


class ShellRefusedError(Exception):
    """It cannot be opened; the sentence says why."""


class Line(Protocol):
    """An agent's stream."""

    def send(self, message: FromServer) -> None: ...


@dataclass(slots=True)
class _Shell:
    line: Line
    said: deque[FromShell] = field(default_factory=deque)
    kept: int = 0
    news: asyncio.Event = field(default_factory=asyncio.Event)
    asked: float = 0.0
    """When somebody last asked what it has said, on the loop's clock."""

    def add(self, message: FromShell) -> None:
        self.said.append(message)
        if isinstance(message, ShellOutput):
            self.kept += len(message.data)
        self.news.set()


class Switchboard:
    def __init__(self) -> None:
        self._shells: dict[int, _Shell] = {}
        """By a number that nobody can guess, and that no other leader gives to another shell."""

    async def open(self, line: Line, order: OpenShell) -> int:
        """Its number, once it is open. Raises ShellRefusedError."""
        loop = asyncio.get_running_loop()
        number = secrets.randbits(NUMBER_BITS)
        shell = self._shells[number] = _Shell(line, asked=loop.time())
        line.send(msgspec.structs.replace(order, shell=number))
        try:
            async with asyncio.timeout(OPENING_S):
                await shell.news.wait()
        except TimeoutError:
            self.say(CloseShell(shell=number))
            raise ShellRefusedError("its node did not answer: try again shortly") from None
        except asyncio.CancelledError:
            self.say(CloseShell(shell=number))
            raise
        first = shell.said.popleft()
        if not isinstance(first, ShellOpened):
            del self._shells[number]
            raise ShellRefusedError(first.detail if isinstance(first, ShellOver) else GONE)
        loop.call_later(UNASKED_S, self._look_after, number)
        return number

    def say(self, message: ToShell) -> None:
        shell = self._shells.get(message.shell)
        if shell is not None:
            shell.line.send(message)
            if isinstance(message, CloseShell):
                del self._shells[message.shell]

    async def hear(self, number: int, wait_s: float) -> list[FromShell]:
        """What it has said since this was last asked; empty if that is nothing within the time."""
        shell = self._shells.get(number)
        if shell is None:
            return [ShellOver(shell=number, detail=GONE, lost=True)]
        loop = asyncio.get_running_loop()
        shell.asked = loop.time()
        if not shell.said:
            shell.news.clear()
            try:
                async with asyncio.timeout(wait_s):
                    await shell.news.wait()
            except TimeoutError:
                return []
            finally:
                shell.asked = loop.time()
        said, shell.said, shell.kept = list(shell.said), deque(), 0
        if any(isinstance(message, ShellOver) for message in said):
            self._shells.pop(number, None)
        return said

    def heard(self, line: Line, message: FromShell) -> None:
        """From an agent: of its own shells only."""
        shell = self._shells.get(message.shell)
        if shell is None or shell.line is not line:
            return
        shell.add(message)
        if shell.kept > MOST_KEPT:
            self._give_up(message.shell, "its node sends more than it may")

    def left(self, line: Line) -> None:
        """That stream is over."""
        for number, shell in self._shells.items():
            if shell.line is line:
                shell.add(ShellOver(shell=number, detail=GONE, lost=True))

    def _give_up(self, number: int, why: str) -> None:
        shell = self._shells[number]
        shell.line.send(CloseShell(shell=number))
        shell.said.clear()
        shell.kept = 0
        shell.add(ShellOver(shell=number, detail=why))

    def _look_after(self, number: int) -> None:
        shell = self._shells.get(number)
        if shell is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() - shell.asked > UNASKED_S:
            self.say(CloseShell(shell=number))
        else:
            loop.call_later(UNASKED_S, self._look_after, number)
