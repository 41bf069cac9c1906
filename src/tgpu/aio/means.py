"""Connections and pauses of asyncio, for code that is written as if it blocked (see `switching`)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from tgpu.aio.switching import wait_for
from tgpu.client.locate import Address
from tgpu.client.means import Means, distrust, tls_context
from tgpu.client.server_account import check_account

P = ParamSpec("P")
R = TypeVar("R")


class LoopMeans(Means):
    """Those of a loop, which does something else meanwhile."""

    def open(self, address: Address, timeout: float) -> "LoopPlug":
        return LoopPlug(*wait_for(asyncio.wait_for(_connected(address), timeout)), timeout)

    def sleep(self, seconds: float) -> None:
        wait_for(asyncio.sleep(seconds))

    def aside(self, ask: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
        return wait_for(asyncio.to_thread(ask, *arguments, **named))


class LoopPlug:
    """A connection that looks like a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float) -> None:
        self._reader = reader
        self._writer = writer
        self._timeout: float | None = timeout

    def recv(self, at_most: int, /) -> bytes:
        return self._within(self._reader.read(at_most))

    def sendall(self, data: bytes, /) -> None:
        self._writer.write(data)
        self._within(self._writer.drain())

    def settimeout(self, seconds: float | None, /) -> None:
        self._timeout = seconds

    def close(self) -> None:
        self._writer.close()

    def _within(self, awaitable: Awaitable[R]) -> R:
        return wait_for(asyncio.wait_for(awaitable, self._timeout))


async def _connected(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.scheme == "unix":
        return _checked(address, *await asyncio.open_unix_connection(address.path))
    if address.scheme == "http":
        return _checked(address, *await asyncio.open_connection(address.host, address.port))
    try:
        return await asyncio.open_connection(
            address.host, address.port, ssl=tls_context(), server_hostname=address.host
        )
    except OSError as error:
        told = distrust(address, error)
        if told is None:
            raise
        raise told from error


def _checked(
    address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        check_account(writer.get_extra_info("socket"), address, address.path)
    except BaseException:
        writer.close()
        raise
    return reader, writer
