"""The server's end of an agent's stream over TCP: nothing reaches the hub before the key was shown."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from tgpu.control.agent_session import Session
from tgpu.control.clock_skew import NodeClock
from tgpu.control.hub import Hub
from tgpu.domain.node_limits import BeyondLimitsError, NodeLimits
from tgpu.observe.logs import logger
from tgpu.protocol.framing import MAX_FRAME, FramingError, from_agents
from tgpu.protocol.messages import Elsewhere, FromAgent, FromServer, Hello, KnowsNewer, Refused
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring.admission import Admissions, approved_limits, waiting_words, within
from tgpu.wiring.connection_limits import Visit, source_of
from tgpu.wiring.crowd import LONGEST_FRAME, Crowd, CrowdedError, Stranger
from tgpu.wiring.framed import Framed
from tgpu.wiring.node_pace import NodePace, units_of, units_of_bytes

PROOF_S = 30.0
"""From the greeting to the hello: a node reads its records and asks for its GPUs before it speaks."""
UNGREETED_S = 60.0
"""From the connection to the greeting, which waits for a leader; the node connects again."""
MOST_UNSENT = 128 * 1024 * 1024
_log = logger("link")


class Ring(Admissions, Protocol):
    async def refusal(self, node_id: str, key: str) -> str | None:
        """Why this node is not who it says; None if it is. Raises StoreUnavailableError."""
        ...


class KeyedAgentLink(Framed[FromAgent]):
    def __init__(
        self, hub: Hub, ring: Ring, crowd: Crowd, now_ms: Callable[[], int], visit: Visit | None = None
    ) -> None:
        """`visit`: the connection as one of a stranger; it ends when the key is proved."""
        super().__init__(from_agents())
        self._reader.longest = LONGEST_FRAME
        self._hub, self._ring, self._crowd = hub, ring, crowd
        self._clock = NodeClock(now_ms)
        self._visit = visit
        self._stranger: Stranger | None = None
        self._session: Session | None = None
        self._patience: asyncio.TimerHandle | None = None
        self._is_greeted = False
        self._proving: asyncio.Task[None] | None = None
        self._node_id: str | None = None
        self._early: list[FromAgent] = []
        """What a node said while its key was being looked up."""
        self._limits = NodeLimits()
        self._is_turned_away = False
        self._pace = NodePace(self._loop.time())
        """Its own until the node is known."""
        self._units = 0.0
        """Of what was taken since the pace was charged last."""
        self._unheard: asyncio.TimerHandle | None = None
        """Set while the node is ahead of its pace, and nothing of it is read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        try:
            self._stranger = self._crowd.enter(_source(transport))
        except CrowdedError as error:
            _log.warning("an agent was turned away", why=str(error))
            self.close()
            return
        self._wait(UNGREETED_S)
        self._session = self._hub.opened(self)

    def _wait(self, seconds: float) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._loop.call_later(seconds, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._node_id is None and self._stranger is not None:
            try:
                self._stranger.said(len(data))
            except CrowdedError as error:
                _log.warning("a stream was cut", why=str(error))
                self.abort()
                return
        self._units += units_of_bytes(len(data))
        super().data_received(data)
        self._keep_pace()

    def _keep_pace(self) -> None:
        units, self._units = self._units, 0.0
        pause_s = self._pace.charge(units, self._loop.time())
        if not pause_s or self._transport is None or self._transport.is_closing():
            return
        if self._unheard is None:
            self._transport.pause_reading()
            self._unheard = self._loop.call_later(pause_s, self._hear_again)

    def _hear_again(self) -> None:
        self._unheard = None
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def send(self, message: FromServer) -> None:  # type: ignore[override]  # nothing else is said to agents
        if self._node_id is None and not self._is_greeted:
            self._is_greeted = True
            self._wait(PROOF_S)
        super().send(message)
        if self._transport is not None and self._transport.get_write_buffer_size() > MOST_UNSENT:
            _log.warning("an agent does not read what it is told; its stream was cut", node_id=self._node_id)
            self.abort()

    def take(self, message: FromAgent) -> None:
        if self._session is None or self._is_turned_away:
            return
        if isinstance(message, Hello | KnowsNewer) and message.node_id != self._node_id:
            if self._node_id is not None or self._proving is not None:
                raise FramingError("a stream speaks for one node only")
            self._proving = self._loop.create_task(self._prove(message))
            if self._transport is not None:
                self._transport.pause_reading()  # until the node is known
        elif self._node_id is not None:
            self._pass_on(self._session, self._node_id, message)
        elif self._proving is not None:
            self._early.append(message)
        else:
            raise FramingError(f"a {type(message).__name__} before the hello")

    async def _prove(self, hello: Hello | KnowsNewer) -> None:
        try:
            why = await self._ring.refusal(hello.node_id, hello.key)
        except StoreUnavailableError:
            self.close()  # nobody knows now: it comes again
            return
        if why is not None:
            _log.warning("a node without the right key", node_id=hello.node_id)
            self.send(Refused(why=why))
            self.close()
            return
        if not await self._is_admitted(hello.node_id):
            return
        self._pace = self._crowd.paces.of(hello.node_id, self._loop.time())
        await asyncio.sleep(self._pace.charge(0, self._loop.time()))
        self._known_as(hello.node_id)
        early, self._early = self._early, []
        self.take_all(lambda: (hello, *early))
        self._hear_again()
        self._keep_pace()

    async def _is_admitted(self, node_id: str) -> bool:
        """Nothing of a node that waits for approval reaches the hub."""
        try:
            limits = await approved_limits(self._ring, node_id)
        except StoreUnavailableError:
            self.close()
            return False
        if limits is None:
            self._turn_away(Elsewhere(leader=None, why=waiting_words(node_id)))
            return False
        try:
            limits.check_address(node_id, self._peer_address())
        except BeyondLimitsError as error:
            self._turn_away(Refused(why=str(error)))
            return False
        self._limits = limits
        return True

    def _pass_on(self, session: Session, node_id: str, message: FromAgent) -> None:
        self._units += units_of(message)
        try:
            session.received(self._clock.read(within(self._limits, node_id, message)))
        except BeyondLimitsError as error:
            self._turn_away(Refused(why=str(error)))

    def _turn_away(self, answer: Elsewhere | Refused) -> None:
        _log.warning("a node was turned away", why=answer.why)
        self._is_turned_away = True
        self.send(answer)
        self.close()

    def _peer_address(self) -> str:
        peer = None if self._transport is None else self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else ""

    def _known_as(self, node_id: str) -> None:
        self._node_id = node_id
        self._reader.longest = MAX_FRAME
        self._not_a_stranger()

    def _not_a_stranger(self) -> None:
        if self._stranger is not None:
            self._stranger.leave()
        if self._visit is not None:
            self._visit.leave()
        if self._patience is not None:
            self._patience.cancel()

    def refuse(self, why: str) -> None:
        if self._session is not None:
            self._session.refused(why)
        else:
            super().refuse(why)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._not_a_stranger()
        if self._unheard is not None:
            self._unheard.cancel()
        if self._proving is not None:
            self._proving.cancel()
        if self._session is not None:
            self._session.closed()


def _source(transport: asyncio.BaseTransport) -> str:
    """Empty on a unix socket."""
    peer = transport.get_extra_info("peername")
    return source_of(peer[0]) if isinstance(peer, tuple) else ""
