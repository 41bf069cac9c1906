"""Being inside a running container: a program that the engine starts there, as its user."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Coroutine, Mapping
from typing import Any

from aiodocker.execs import Exec
from aiodocker.stream import Stream

from tgpu.runner.companion import CANNOT_EXECUTE, NO_SUCH_COMMAND
from tgpu.runner.docker.engine import Engine, EngineAwayError, EngineRefusedError, plainly
from tgpu.runner.shell_port import CHUNK, Output, Over, ShellOrder
from tgpu.runner.task import not_found

_NOT_STARTED = b"OCI runtime exec failed"
_WORDS = re.compile(r'exec: "(?P<name>.*)": (?:stat \S+: )?(?P<reason>[^:"]+)(?:: unknown)?\s*$')
_NO_SUCH = ("executable file not found", "no such file")


async def open_shell(engine: Engine, name: str, order: ShellOrder) -> "ContainerShell":
    env = {"TERM": order.term} if order.tty and order.term else {}
    program = await engine.open_program(name, order.command, tty=order.tty, env=env)
    async with plainly():
        stream = program.start()
        await stream.__aenter__()
    shell = ContainerShell(program, stream, tty=order.tty)
    shell.resize(order.rows, order.cols)
    return shell


class ContainerShell:
    """See the port."""

    def __init__(self, program: Exec, stream: Stream, *, tty: bool) -> None:
        self._program = program
        self._stream = stream
        self._tty = tty
        self._rest = b""
        self._number = 0
        self._closed = False
        self._asides: set[asyncio.Task[None]] = set()

    async def read(self) -> Output | Over:
        if not self._rest:
            message = await self._stream.read_out()
            if message is None:
                return await self._over()
            if message.data.startswith(_NOT_STARTED) and (refused := await self._refused(message.data)):
                return refused
            self._number, self._rest = message.stream, message.data
        data, self._rest = self._rest[:CHUNK], self._rest[CHUNK:]
        return Output(self._number, data)

    async def write(self, data: bytes) -> None:
        if self._closed:
            return
        with contextlib.suppress(OSError, RuntimeError):  # it is over: nobody will take it
            if data:
                await self._stream.write_in(data)
            else:
                self._no_more_input()

    def resize(self, rows: int, cols: int) -> None:
        if self._tty and not self._closed:
            self._aside(self._resize(rows, cols))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._aside(self._hang_up())

    def _no_more_input(self) -> None:
        """The library has no word for it: its end of the connection is closed for writing alone."""
        response = self._stream._resp  # noqa: SLF001  see above
        transport = None if response is None or response.connection is None else response.connection.transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()

    async def _resize(self, rows: int, cols: int) -> None:
        async with plainly():
            await self._program.resize(h=rows, w=cols)

    async def _hang_up(self) -> None:
        async with plainly():
            about = await self._program.inspect()
        with contextlib.suppress(OSError):
            await self._send_hang_up(about)
        await self._stream.close()

    async def _send_hang_up(self, about: Mapping[str, Any]) -> None:
        """The process is opened first, and the engine asked again afterwards: its number may be another
        process's by now. Raises OSError."""
        if not about.get("Running") or not about.get("Pid"):
            return
        process = os.pidfd_open(int(about["Pid"]))
        try:
            async with plainly():
                again = await self._program.inspect()
            if again.get("Running") and again.get("Pid") == about["Pid"]:
                signal.pidfd_send_signal(process, signal.SIGHUP)
        finally:
            os.close(process)

    async def _refused(self, said: bytes) -> Over | None:
        """If these words are the engine's, and not those of a program that runs."""
        async with plainly():
            about = await self._program.inspect()
        if about.get("Running") or about.get("Pid"):
            return None
        return why_not_started(said.decode(errors="replace"))

    async def _over(self) -> Over:
        try:
            async with plainly():
                about = await self._program.inspect()
        except (EngineAwayError, EngineRefusedError) as error:
            return Over(None, f"the container engine is gone: {error}")
        code = about.get("ExitCode")
        return Over(None if code is None else int(code))

    def _aside(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(_if_possible(work))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)


def why_not_started(said: str) -> Over:
    """As it is told of a program that is no container's: there is none of that name, or it cannot be run."""
    found = _WORDS.search(said)
    if found is None:
        return Over(CANNOT_EXECUTE, said.strip())
    name, reason = found["name"], found["reason"]
    if any(sign in reason for sign in _NO_SUCH):
        return Over(NO_SUCH_COMMAND, f"{name}: {not_found([name])}")
    return Over(CANNOT_EXECUTE, f"{name}: {reason[:1].upper()}{reason[1:]}")


async def _if_possible(work: Coroutine[None, None, None]) -> None:
    with contextlib.suppress(EngineAwayError, EngineRefusedError):  # it is over, or will be seen to be
        await work
