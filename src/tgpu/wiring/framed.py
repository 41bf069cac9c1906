"""One end of a stream of messages on a real socket, whatever the messages are."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar, cast

from tgpu.observe.logs import logger, trace_of
from tgpu.protocol.framing import FramingError, Message, Reader, encode

T = TypeVar("T")
_log = logger("link")


class Framed(asyncio.Protocol, ABC, Generic[T]):
    """Cuts the byte stream into messages; a peer that speaks something else is cut off."""

    def __init__(self, reader: Reader[T]) -> None:
        self._reader = reader
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._over = self._loop.create_future()
        self._unsent: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        self.take_all(lambda: self._reader.feed(data))

    def take_all(self, messages: Callable[[], Iterable[T]]) -> None:
        """Takes each of them in; whatever is wrong with one ends this stream, and nothing else."""
        try:
            for message in messages():
                self.take(message)
        except FramingError as error:
            self.refuse(str(error))
        except Exception as error:  # noqa: BLE001  only this stream ends, whatever it is
            _log.error("a message could not be handled", trace=trace_of(error))
            self.refuse("a message could not be handled: see the server's log")

    @abstractmethod
    def take(self, message: T) -> None: ...

    def refuse(self, why: str) -> None:
        """The other side has sent something that is not valid."""
        _log.warning("a stream was cut", why=why)
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        self._transport = None
        if not self._over.done():
            self._over.set_result(None)

    def send(self, message: Message) -> None:
        """What is said in one turn of the loop leaves together, and wakes the other side once."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(encode(message))

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None and unsent:
            self._transport.write(b"".join(unsent))

    def close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()

    async def closed(self) -> None:
        await asyncio.shield(self._over)
