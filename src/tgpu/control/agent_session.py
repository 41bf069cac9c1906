"""One stream of one agent, and what the server knows of it."""

from collections.abc import Mapping
from typing import Protocol

from tgpu.protocol.messages import FromAgent, FromServer


class Link(Protocol):
    """One stream to an agent, whatever carries it."""

    def send(self, message: FromServer) -> None:
        """Never blocks; lost if the stream breaks."""
        ...

    def close(self) -> None: ...


class Receiver(Protocol):
    """The hub."""

    def received(self, session: "Session", message: FromAgent) -> None: ...

    def refused(self, session: "Session", why: str) -> None: ...

    def closed(self, session: "Session") -> None: ...


class Session:
    """One connection of one agent; named once it has said hello."""

    def __init__(self, hub: Receiver, number: int, link: Link) -> None:
        self._hub = hub
        self.number = number
        self.link = link
        self.node_id: str | None = None
        self.settled = False
        """Its hello is committed, and what followed from it was ordered."""
        self.unanswered: float | None = None
        """The newest heartbeat that came before that."""
        self.knows_shells = self.knows_gangs = self.knows_snapshots = self.wants_keys = False
        self.knows_shared_tmp = False
        self.serves = self.instance = ""
        self.keeps_record = False
        self.labels: Mapping[str, str] = {}

    def received(self, message: FromAgent) -> None:
        self._hub.received(self, message)

    def refused(self, why: str) -> None:
        """It has said something that is not valid: its stream is cut."""
        self._hub.refused(self, why)

    def closed(self) -> None:
        self._hub.closed(self)
