"""The agent's end of its one stream to the server, whatever carries it."""

from typing import Protocol

from tgpu.protocol.messages import FromAgent, FromServer


class Channel(Protocol):
    def send(self, message: FromAgent) -> None:
        """Never blocks; lost if the stream breaks."""
        ...

    def close(self) -> None: ...

    async def closed(self) -> None:
        """Returns when the stream is over."""
        ...


class Listener(Protocol):
    def received(self, message: FromServer) -> None: ...


class Dial(Protocol):
    async def __call__(self, listener: Listener) -> Channel:
        """Raises OSError if nobody answers."""
        ...
