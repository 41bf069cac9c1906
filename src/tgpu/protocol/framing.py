"""How messages travel: MessagePack behind a four-byte length."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from tgpu.protocol.messages import FromAgent, FromServer
from tgpu.protocol.peers import FromPeer, ToPeer
from tgpu.protocol.server_proof import LONGEST, FromProver, Opening
from tgpu.protocol.validation import InvalidMessageError, checked

MAX_FRAME = 64 * 1024 * 1024
_LENGTH = 4

Message = FromAgent | FromServer | ToPeer | FromPeer | Opening | FromProver
_encoder = msgspec.msgpack.Encoder()
T = TypeVar("T")


class FramingError(ValueError):
    """What came in is not this protocol."""


def encode(message: Message) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH, "big") + body


class Reader(Generic[T]):
    """Bytes in, whole and valid messages out, however they were cut on the way."""

    def __init__(self, decoder: "msgspec.msgpack.Decoder[T]", check: Callable[[T], T] | None = None) -> None:
        """`check`: returns a message as it is passed on; raises InvalidMessageError."""
        self._decoder = decoder
        self._check = check
        self.longest = MAX_FRAME
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[T]:
        self._buffer += data
        messages: list[T] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH:
            size = int.from_bytes(self._buffer[start : start + _LENGTH], "big")
            if size > self.longest:
                raise FramingError(f"a frame of {size} bytes is longer than {self.longest}")
            end = start + _LENGTH + size
            if len(self._buffer) < end:
                break
            messages.append(self._decoded(memoryview(self._buffer)[start + _LENGTH : end].tobytes()))
            start = end
        del self._buffer[:start]
        return messages

    def _decoded(self, body: bytes) -> T:
        try:
            message = self._decoder.decode(body)
            return message if self._check is None else self._check(message)
        except InvalidMessageError as error:
            raise FramingError(f"not a valid message: {error}") from error
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise FramingError(f"not a message of this protocol: {error}") from error


def from_agents() -> Reader[FromAgent]:
    return Reader(msgspec.msgpack.Decoder(FromAgent), checked)


def from_server() -> Reader[FromServer]:
    return Reader(msgspec.msgpack.Decoder(FromServer))


def from_asking_servers() -> Reader[ToPeer]:
    return Reader(msgspec.msgpack.Decoder(ToPeer))


def from_leader() -> Reader[FromPeer]:
    return Reader(msgspec.msgpack.Decoder(FromPeer))


def from_callers() -> Reader[Opening]:
    return _short(Reader(msgspec.msgpack.Decoder(Opening)))


def from_prover() -> Reader[FromProver]:
    return _short(Reader(msgspec.msgpack.Decoder(FromProver)))


def _short(reader: Reader[T]) -> Reader[T]:
    reader.longest = LONGEST
    return reader
