"""The agents' streams: who is connected, what they say, and how to reach them."""

import asyncio
from typing import Protocol

from tgpu.control.inbox import Inbox, NodeChanged, NodeLeft, NodeReported, NodeSaidHello
from tgpu.core import edge
from tgpu.domain.node import Capacity
from tgpu.observe.logs import logger
from tgpu.protocol.messages import (
    PROTOCOL,
    FromAgent,
    FromServer,
    Greeting,
    Heartbeat,
    Hello,
    LogChunk,
    NodeUse,
    ReadLog,
    Refused,
    Report,
)

LOG_ANSWER_S = 10.0


class Link(Protocol):
    """One stream to an agent, whatever carries it."""

    def send(self, message: FromServer) -> None:
        """Never blocks; lost if the stream breaks."""
        ...

    def close(self) -> None: ...


class NodeAwayError(Exception):
    """The node is not connected, or did not answer in time."""


class Session:
    """One connection of one agent; named once it has said hello."""

    def __init__(self, hub: "Hub", number: int, link: Link) -> None:
        self._hub = hub
        self.number = number
        self.link = link
        self.node_id: str | None = None

    def received(self, message: FromAgent) -> None:
        self._hub.received(self, message)

    def closed(self) -> None:
        self._hub.closed(self)


class Hub:
    """Sessions by node; a node's newest session is the one that counts."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._sessions: dict[str, Session] = {}
        self._nameless: dict[Session, None] = {}
        self._last_number = 0
        self._last_question = 0
        self._questions: dict[int, asyncio.Future[LogChunk]] = {}
        self._cluster_id = ""
        self._epoch = 0
        self._log = logger("hub")
        self.heard: dict[str, float] = {}
        """When each node was last heard, on the loop's clock."""
        self.use: dict[str, NodeUse] = {}

    def lead(self, cluster_id: str, epoch: int) -> None:
        """From now on agents are welcome; those who came early are greeted now."""
        self._cluster_id, self._epoch = cluster_id, epoch
        self._last_number = epoch << 32  # numbers are never used again, across restarts too
        for session in self._nameless:
            self._greet(session)

    def opened(self, link: Link) -> Session:
        session = Session(self, 0, link)
        self._nameless[session] = None
        if self._epoch:
            self._greet(session)
        return session

    def _greet(self, session: Session) -> None:
        self._last_number += 1
        session.number = self._last_number
        session.link.send(
            Greeting(
                protocol=PROTOCOL, cluster_id=self._cluster_id, epoch=self._epoch, session=session.number
            )
        )

    def received(self, session: Session, message: FromAgent) -> None:
        node_id = session.node_id
        if node_id is not None:
            self.heard[node_id] = asyncio.get_running_loop().time()
        match message:
            case Report() if node_id is not None:
                self._inbox.put(NodeReported(session.number, node_id, message))
            case Heartbeat() if node_id is not None:
                self.use[node_id] = message.use
                if message.capacity is not None and self._acceptable(session, node_id, message.capacity):
                    self._inbox.put(NodeChanged(node_id, message.capacity))
            case LogChunk():
                waiting = self._questions.pop(message.request, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
            case Hello():
                self._hello(session, message)
            case _:
                self._log.warning("unexpected", message=type(message).__name__)

    def _acceptable(self, session: Session, node_id: str, capacity: Capacity) -> bool:
        """A node whose description cannot be true is sent away, with the reason."""
        try:
            edge.check_capacity(node_id, capacity)
        except edge.BadPictureError as error:
            session.link.send(Refused(why=str(error)))
            session.link.close()
            return False
        return True

    def _hello(self, session: Session, hello: Hello) -> None:
        if hello.protocol != PROTOCOL:
            why = f"this server speaks protocol {PROTOCOL}, the agent {hello.protocol}: install one version"
            session.link.send(Refused(why=why))
            session.link.close()
            return
        if not self._acceptable(session, hello.node_id, hello.capacity):
            return
        older = self._sessions.get(hello.node_id)
        session.node_id = hello.node_id
        self._nameless.pop(session, None)
        self._sessions[hello.node_id] = session
        self.heard[hello.node_id] = asyncio.get_running_loop().time()
        if older is not None and older is not session:
            older.link.close()
        self._inbox.put(NodeSaidHello(session.number, hello))

    def closed(self, session: Session) -> None:
        self._nameless.pop(session, None)
        if session.node_id is not None and self._sessions.get(session.node_id) is session:
            del self._sessions[session.node_id]
            self._inbox.put(NodeLeft(session.node_id))

    def hang_up(self) -> None:
        """Every agent comes again and says everything anew."""
        for session in list(self._sessions.values()):
            session.link.close()

    def session_of(self, node_id: str) -> int | None:
        session = self._sessions.get(node_id)
        return session.number if session is not None else None

    def send(self, node_id: str, message: FromServer) -> None:
        """To the node's present session; a node that is away hears it all when it comes back."""
        session = self._sessions.get(node_id)
        if session is not None:
            session.link.send(message)

    async def read(  # noqa: PLR0917  a question has these parts
        self, node_id: str, attempt: str, stream: str, offset: int, max_bytes: int, wait_s: float
    ) -> LogChunk:
        """A stretch of a task's output from the node that has it."""
        session = self._sessions.get(node_id)
        if session is None:
            raise NodeAwayError(f"{node_id}, which has the output, is not connected: try again shortly")
        self._last_question += 1
        number = self._last_question
        answer = self._questions[number] = asyncio.get_running_loop().create_future()
        session.link.send(
            ReadLog(
                request=number,
                attempt=attempt,
                stream=stream,
                offset=offset,
                max_bytes=max_bytes,
                wait_s=wait_s,
            )
        )
        try:
            return await asyncio.wait_for(answer, wait_s + LOG_ANSWER_S)
        except TimeoutError:
            raise NodeAwayError(f"{node_id} did not answer: try again shortly") from None
        finally:
            self._questions.pop(number, None)
