"""The shells that are open on this node: what the server says to them, and what they say to it.

None of them may hold up the stream to the server, or bring down the agent: each has at most `WINDOW` bytes
under way, whatever goes wrong with one ends it alone, and all end when the stream does.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from tgpu.observe.logs import logger
from tgpu.protocol.messages import FromAgent
from tgpu.protocol.shells import (
    WINDOW,
    CloseShell,
    OpenShell,
    ResizeShell,
    ShellInput,
    ShellOpened,
    ShellOutput,
    ShellOver,
    Taken,
    ToShell,
)
from tgpu.runner.port import Runner
from tgpu.runner.shell_port import Over, Shell, ShellOrder, ShellRefusedError

MOST = 64
"""So many at once: together they may not have more under way than heartbeats can wait for."""
MOST_OF_USER = 32
"""Of them: no user can keep all others out."""


@dataclass(slots=True)
class _Open:
    """One shell, from its order to its end."""

    user: str
    task: "asyncio.Task[None] | None" = None
    shell: Shell | None = None
    typed: "asyncio.Queue[bytes]" = field(default_factory=asyncio.Queue)
    typed_bytes: int = 0
    """Not yet taken by the program."""
    untaken: int = 0
    """Printed, and not yet taken by the user's terminal."""
    room: asyncio.Event = field(default_factory=asyncio.Event)


class Shells:
    def __init__(self, send: Callable[[FromAgent], None]) -> None:
        self._send = send
        self._open: dict[int, _Open] = {}
        self._log = logger("shells")

    def open(self, order: OpenShell, runner: Runner | None) -> None:
        number = order.shell
        if runner is None or number in self._open:
            return
        if why := self._why_no_more(order.user):
            self._send(ShellOver(shell=number, detail=why, refused=True))
            return
        one = self._open[number] = _Open(order.user)
        one.task = asyncio.get_running_loop().create_task(self._serve(one, order, runner))

    def _why_no_more(self, user: str) -> str:
        """Empty: one more may be opened."""
        if len(self._open) >= MOST:
            return f"{MOST} shells are open on its node, and no more may be: try again when one is closed"
        of_user = sum(one.user == user for one in self._open.values())
        if user and of_user >= MOST_OF_USER:
            return f"{user} has {of_user} shells open on its node, and may have no more: close one first"
        return ""

    def heard(self, message: ToShell) -> None:
        one = self._open.get(message.shell)
        if one is None:
            return  # it is over, and the server hears so
        match message:
            case ShellInput(data=data):
                one.typed_bytes += len(data)
                if one.typed_bytes > WINDOW:
                    self._end(message.shell)  # nobody who keeps to the rules sends so much
                else:
                    one.typed.put_nowait(data)
            case ResizeShell(rows=rows, cols=cols):
                if one.shell is not None:
                    one.shell.resize(rows, cols)
            case Taken(count=count):
                one.untaken -= count
                one.room.set()
            case CloseShell():
                self._end(message.shell)

    def hang_up(self) -> None:
        """The stream is gone, and with it everybody who was here."""
        for number in list(self._open):
            self._end(number)

    def _end(self, number: int) -> None:
        one = self._open.pop(number)
        if one.task is not None:
            one.task.cancel()

    async def _serve(self, one: _Open, order: OpenShell, runner: Runner) -> None:
        number = order.shell
        try:
            over = await self._go_through(one, order, runner)
        except ShellRefusedError as refusal:
            over = ShellOver(shell=number, detail=str(refusal), refused=True)
        except Exception as error:  # noqa: BLE001  a shell that fails is no reason for the agent to
            self._log.error("a shell failed", attempt=order.attempt, exc_info=error)
            over = ShellOver(shell=number, detail=f"the node's agent failed at it: {type(error).__name__}")
        if self._open.get(number) is one:
            del self._open[number]
            self._send(over)

    async def _go_through(self, one: _Open, order: OpenShell, runner: Runner) -> ShellOver:
        asked = ShellOrder(
            attempt=order.attempt,
            command=order.command,
            tty=order.tty,
            rows=order.rows,
            cols=order.cols,
            term=order.term,
        )
        shell = one.shell = await runner.open_shell(asked)
        typing = asyncio.create_task(self._type(one, order.shell, shell))
        try:
            self._send(ShellOpened(shell=order.shell))
            over = await self._print(one, order.shell, shell)
        finally:
            one.shell = None
            typing.cancel()
            await asyncio.gather(typing, return_exceptions=True)
            shell.close()
        return ShellOver(shell=order.shell, exit_code=over.exit_code, detail=over.detail)

    async def _print(self, one: _Open, number: int, shell: Shell) -> Over:
        while True:
            while one.untaken >= WINDOW:
                one.room.clear()
                await one.room.wait()
            said = await shell.read()
            if isinstance(said, Over):
                return said
            one.untaken += len(said.data)
            self._send(ShellOutput(shell=number, stream=said.stream, data=said.data))

    async def _type(self, one: _Open, number: int, shell: Shell) -> None:
        while True:
            data = await one.typed.get()
            await shell.write(data)
            one.typed_bytes -= len(data)
            self._send(Taken(shell=number, count=len(data)))
