"""One port for everything: the first bytes of a connection tell HTTP, agents and other servers apart."""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import uvicorn

from tgpu.api.bounded_http import BoundedProtocol
from tgpu.api.problems import ProblemError
from tgpu.api.websocket import PeerCredWebSocket
from tgpu.observe.logs import logger
from tgpu.protocol import door
from tgpu.wiring.addresses import BACKLOG
from tgpu.wiring.connection_limits import ConnectionLimits, Kind, TooManyConnectionsError, Visit, source_of
from tgpu.wiring.doorman import Doorman
from tgpu.wiring.fair_listener import FairListener
from tgpu.wiring.prover import ProofLink, Prover
from tgpu.wiring.stream_options import GOODBYE_S, notice_death

HANDSHAKE_S = 30.0
"""Longer than a request's head may take: the node may be as busy as this server."""
_RETRY_S = "5"

LinkFactory = Callable[[Visit], asyncio.Protocol]
"""Makes the server's end of a stream; it calls `leave` of the visit when the other end is known, or gone."""
_log = logger("port")


class OnePortProtocol(BoundedProtocol):
    """HTTP, unless the first bytes say otherwise: then the stream's own protocol takes over."""

    links: dict[bytes, LinkFactory]
    """By the first bytes; set by `http_protocol`."""
    limits: ConnectionLimits
    """Set by `http_protocol`."""
    prover: Prover | None
    """Of a plain port, for callers that want to know first who answers; set by `http_protocol`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever uvicorn hands over
        super().__init__(*args, **kwargs)
        self.visit: Visit | None = None
        """Set before the connection is made if it was counted already."""
        self._first = b""
        self._is_http = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        try:
            self._count(transport)
        except TooManyConnectionsError as error:
            self._turn_away(error)

    def _count(self, transport: asyncio.Transport) -> None:
        if self._peer is not None:
            self._is_http = True
            if self._peer.uid not in (0, os.geteuid()):
                self.visit = self.limits.enter(Kind.USER, self._peer.uid, self._make_way)
        elif self.visit is None:
            source = source_of(transport.get_extra_info("peername")[0])
            self.visit = self.limits.enter(Kind.UNDECIDED, source, self._make_way)
        else:
            self.visit.make_way = self._make_way

    def _turn_away(self, error: TooManyConnectionsError) -> None:
        _log.warning("a connection was refused", why=str(error))
        self._refuse(
            ProblemError(
                429,
                "too-many-connections",
                f"{error}; close some, or try again later. Administrators can raise connections_per_user and "
                "connections_per_address",
                headers={"Retry-After": _RETRY_S},
            )
        )

    def _make_way(self) -> bool:
        """For a newer connection, unless it is used by a caller who is known."""
        if self._is_answering() and "tgpu.caller" in self.cycle.scope:
            return False
        self._plain.abort()
        return True

    def data_received(self, data: bytes) -> None:
        if self._is_http:
            super().data_received(data)
            return
        self._first += data
        if not door.is_ours(self._first):
            self._is_http = True
            first, self._first = self._first, b""
            if self._counts_as_http():
                super().data_received(first)
        elif len(self._first) >= door.LENGTH:
            self._hand_over(self._link_for(self._first[: door.LENGTH]))

    def _link_for(self, word: bytes) -> LinkFactory | None:
        prover = self.prover
        if word == door.PROVE and prover is not None:
            return lambda visit: ProofLink(prover, self._behind_proof, visit)
        return self.links.get(word)

    def _behind_proof(self, visit: Visit) -> asyncio.Protocol:
        """The same port again, within TLS: there is nothing left to prove."""
        inner = type(self)(config=self.config, server_state=self.server_state, app_state=self.app_state)
        inner.prover, inner.visit = None, visit
        return inner

    def _counts_as_http(self) -> bool:
        assert self.visit is not None
        try:
            self.visit.count_as(Kind.HTTP, source_of(self._plain.get_extra_info("peername")[0]))
        except TooManyConnectionsError as error:
            self._turn_away(error)
            return False
        return True

    def _hand_over(self, factory: LinkFactory | None) -> None:
        """From here on uvicorn knows nothing of this connection."""
        self._stop_timers()
        raw, rest, visit = self._plain, self._first[door.LENGTH :], self.visit
        if factory is None:
            _log.warning("a connection asked for something unknown", first=self._first[: door.LENGTH])
            raw.close()
            return
        assert visit is not None
        visit.stay()
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        notice_death(raw)
        link = factory(visit)
        raw.set_protocol(link)
        link.connection_made(raw)
        if rest and not raw.is_closing():
            link.data_received(rest)

    def handle_websocket_upgrade(self) -> None:
        super().handle_websocket_upgrade()
        protocol = self._plain.get_protocol()
        if self.visit is not None and isinstance(protocol, PeerCredWebSocket):
            self.visit.stay()
            protocol.on_closed = self.visit.leave

    def _too_slow(self, part: str) -> None:
        if self._is_http:
            super()._too_slow(part)
        else:
            self._plain.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.visit is not None:
            self.visit.leave()
        super().connection_lost(exc)


def http_protocol(
    agents: LinkFactory | None,
    peers: LinkFactory | None,
    limits: ConnectionLimits,
    prove: Prover | None = None,
) -> type[OnePortProtocol]:
    """For `uvicorn.Config(http=…)`. A stream that has no factory is not served here."""
    served = {door.AGENT: agents, door.PEER: peers}

    class Bound(OnePortProtocol):
        prover = prove
        links = {word: factory for word, factory in served.items() if factory is not None}  # noqa: RUF012  bound once

    Bound.limits = limits
    return Bound


class ApiServer(uvicorn.Server):
    """uvicorn as one part of a process, whose signals are not its business; only TCP speaks TLS."""

    def __init__(
        self,
        config: uvicorn.Config,
        tcp: Sequence[socket.socket] = (),
        tls: ssl.SSLContext | None = None,
        shared: Sequence[socket.socket] = (),
    ) -> None:
        """`shared`: unix sockets to which all users may connect."""
        super().__init__(config)
        self._tcp, self._tls, self._shared = tcp, tls, shared

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """`sockets`: unix sockets to which only the server's own user may connect."""
        await super().startup(sockets)
        config, loop = self.config, asyncio.get_running_loop()

        kind = cast("type[OnePortProtocol]", config.http_protocol_class)

        def protocol(visit: Visit | None = None) -> asyncio.Protocol:
            made = kind(config=config, server_state=self.server_state, app_state=self.lifespan.state)
            made.visit = visit
            return made

        async def shake_hands(sock: socket.socket, visit: Visit) -> None:
            await loop.connect_accepted_socket(
                lambda: protocol(visit),
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )

        for listener in self._shared:
            take = partial(loop.connect_accepted_socket, protocol)
            self.servers.append(FairListener(listener, take))  # type: ignore[arg-type]  # uvicorn only closes it
        for listener in self._tcp:
            if self._tls is None:
                self.servers.append(await loop.create_server(protocol, sock=listener, backlog=BACKLOG))
            else:
                self.servers.append(Doorman(listener, shake_hands, kind.limits))  # type: ignore[arg-type]  # uvicorn only closes it

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
