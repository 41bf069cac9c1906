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


class Guide(Protocol):
    """Remembers where the servers are, for the next call."""

    def welcomed(self, servers: tuple[str, ...]) -> None:
        """By the server that was called last: it leads."""
        ...

    def sent_on(self, leader: str | None, servers: tuple[str, ...]) -> bool:
        """The server that was called last does not lead; it may not know who does. Whether to call again at
        once: not if that leader did not answer, or has been called before without being the one."""
        ...

    def silent(self) -> None:
        """The server that was called last does not answer any more: others first."""
        ...


class OneServer:
    """For an agent that knows one server only."""

    def welcomed(self, servers: tuple[str, ...]) -> None: ...

    def sent_on(self, leader: str | None, servers: tuple[str, ...]) -> bool:  # noqa: ARG002  named by the port
        return False

    def silent(self) -> None: ...
