"""Connections and pauses of asyncio, for code that is written as if it blocked (see `switching`)."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from tgpu.aio.switching import wait_for
from tgpu.client.locate import Address
from tgpu.client.means import Means, distrust, local_socket, tls_context
from tgpu.client.server_account import check_account

P = ParamSpec("P")
R = TypeVar("R")


class LoopMeans(Means):
    """Those of a loop, which does something else meanwhile."""

    def open(self, address: Address, timeout: float) -> "LoopPlug":
        return LoopPlug(*wait_for(asyncio.wait_for(_connected(address, timeout), timeout)), timeout)

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


async def _connected(address: Address, within_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if address.scheme == "unix":
        return await asyncio.open_unix_connection(sock=await _local(address, within_s))
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


async def _local(address: Address, within_s: float) -> socket.socket:
    """Where many connect at once a thread waits in line: asyncio takes a socket for connected that was
    refused for that."""
    with contextlib.suppress(BlockingIOError):
        return local_socket(address, within_s, waits=False)
    opening = asyncio.ensure_future(asyncio.to_thread(local_socket, address, within_s))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unused)
        raise


def _close_unused(opening: asyncio.Future[socket.socket]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _checked(
    address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        check_account(writer.get_extra_info("socket"), address)
    except BaseException:
        writer.close()
        raise
    return reader, writer
