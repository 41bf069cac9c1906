"""What passes between one user's WebSocket and one shell, and not more of it than either window allows."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from starlette.types import Receive, Send

from tgpu.api.ports import NoLeaderError, ShellDesk
from tgpu.api.problems import ProblemError, bad_request
from tgpu.api.shell_form import Over, Said, Told, read_said, told, told_refusal
from tgpu.protocol.shells import (
    CHUNK,
    WINDOW,
    CloseShell,
    FromShell,
    OpenShell,
    ResizeShell,
    ShellInput,
    ShellOutput,
    ShellOver,
    Taken,
)
from tgpu.store.port import StoreUnavailableError

_HEAR_S = 10.0


class UserGoneError(Exception):
    """The WebSocket is over."""


class Relay:
    def __init__(self, desk: ShellDesk, receive: Receive, send: Send) -> None:
        self._desk, self._receive, self._send = desk, receive, send
        self._shell = 0
        self._typed = 0
        """Bytes that the shell has not taken yet,"""
        self._printed = 0
        """and those that the user has not."""

    async def first_word(self) -> str:
        """Raises UserGoneError and ProblemError."""
        text, _ = await self._heard()
        if text is None:
            raise bad_request("the first message must be text that says what to run")
        return text

    async def open(self, node_id: str, order: OpenShell) -> None:
        self._shell = await self._desk.open_shell(node_id, order)

    async def tell(self, text: str) -> None:
        """Whoever is gone is not told."""
        with suppress(UserGoneError):
            await self._pass({"type": "websocket.send", "text": text, "bytes": None})

    async def close(self, code: int) -> None:
        with suppress(UserGoneError, RuntimeError):
            await self._pass({"type": "websocket.close", "code": code, "reason": ""})

    async def run(self, refused: Coroutine[Any, Any, None]) -> None:
        """Until the shell or its user is gone, or `refused` returns."""
        asking = asyncio.create_task(refused)
        typing = asyncio.create_task(self._type())
        printing = asyncio.create_task(self._print())
        tasks = {asking, typing, printing}
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if printing in done:
                await printing
            elif typing in done:
                await typing
            else:
                gone = "you may not be here any more: the token, the role or the job is not what it was"
                await self._tell_over(ShellOver(shell=self._shell, detail=gone))
        except UserGoneError:
            pass
        except ProblemError as problem:
            await self.tell(told_refusal(problem))
        except (NoLeaderError, StoreUnavailableError) as error:
            await self._tell_over(ShellOver(shell=self._shell, detail=str(error), lost=True))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(NoLeaderError, StoreUnavailableError):
                await self._desk.say_to_shell(CloseShell(shell=self._shell))

    # From the user

    async def _type(self) -> None:
        while True:
            text, data = await self._heard()
            if text is not None:
                await self._obey(read_said(text))
            for start in range(0, len(data), CHUNK):
                await self._type_some(data[start : start + CHUNK])

    async def _type_some(self, data: bytes) -> None:
        self._typed += len(data)
        if self._typed > WINDOW:
            raise bad_request(f"more than {WINDOW} bytes of input were sent that were not taken yet")
        await self._desk.say_to_shell(ShellInput(shell=self._shell, data=data))

    async def _obey(self, said: Said) -> None:
        if said.resize is not None:
            rows, cols = said.resize
            await self._desk.say_to_shell(ResizeShell(shell=self._shell, rows=rows, cols=cols))
        if said.taken is not None:
            count = min(said.taken, self._printed)
            self._printed -= count
            if count:
                await self._desk.say_to_shell(Taken(shell=self._shell, count=count))
        if said.end:
            await self._desk.say_to_shell(ShellInput(shell=self._shell, data=b""))

    async def _heard(self) -> tuple[str | None, bytes]:
        message = await self._receive()
        if message["type"] != "websocket.receive":
            raise UserGoneError
        return message.get("text"), message.get("bytes") or b""

    # From the shell

    async def _print(self) -> None:
        while True:
            for message in await self._desk.hear_shell(self._shell, _HEAR_S):
                await self._pass_on(message)
                if isinstance(message, ShellOver):
                    return

    async def _pass_on(self, message: FromShell) -> None:
        match message:
            case ShellOutput(data=data, stream=stream):
                self._printed += len(data)
                await self._pass({"type": "websocket.send", "bytes": bytes((stream,)) + data, "text": None})
            case Taken(count=count):
                self._typed -= count
                await self._pass({"type": "websocket.send", "text": told(Told(taken=count)), "bytes": None})
            case ShellOver():
                await self._tell_over(message)

    async def _tell_over(self, over: ShellOver) -> None:
        await self.tell(told(Told(over=Over(exit_code=over.exit_code, detail=over.detail, lost=over.lost))))

    async def _pass(self, message: Any) -> None:  # noqa: ANN401  one of the messages that ASGI knows
        try:
            await self._send(message)
        except OSError as error:  # uvicorn's word for a client that has gone
            raise UserGoneError from error
