"""One port for everything: the first bytes of a connection tell HTTP, agents and other servers apart."""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvicorn

from tgpu.api.peercred import PeerCredProtocol
from tgpu.observe.logs import logger
from tgpu.protocol import door
from tgpu.wiring.addresses import BACKLOG
from tgpu.wiring.doorman import Doorman
from tgpu.wiring.prover import ProofLink, Prover
from tgpu.wiring.stream_options import GOODBYE_S, notice_death

DECISIVE_S = 10.0
"""How long a connection may take to say what it is, or to send the head of a request."""
HANDSHAKE_S = 30.0
"""Longer: the node may be as busy as this server."""

LinkFactory = Callable[[], asyncio.Protocol]
_log = logger("port")


class OnePortProtocol(PeerCredProtocol):
    """HTTP, unless the first bytes say otherwise: then the connection goes to who speaks that language."""

    links: dict[bytes, LinkFactory]
    """By the words at the door; set by `http_protocol`."""
    prover: Prover | None
    """Of a plain port, for callers that want to know first who answers; set by `http_protocol`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  whatever uvicorn hands over
        super().__init__(*args, **kwargs)
        self._raw: asyncio.Transport | None = None
        self._first = b""
        self._is_http = False
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self._raw = transport
        self._is_http = transport.get_extra_info("socket").family == socket.AF_UNIX
        self._wait()

    def data_received(self, data: bytes) -> None:
        if self._is_http:
            super().data_received(data)
            return
        self._first += data
        if not door.is_ours(self._first):
            self._is_http = True
            first, self._first = self._first, b""
            super().data_received(first)
        elif len(self._first) >= door.LENGTH:
            self._hand_over(self._link_for(self._first[: door.LENGTH]))

    def _link_for(self, word: bytes) -> LinkFactory | None:
        prover = self.prover
        if word == door.PROVE and prover is not None:
            return lambda: ProofLink(prover, self._behind_proof)
        return self.links.get(word)

    def _behind_proof(self) -> asyncio.Protocol:
        """The same port again, within TLS: there is nothing left to prove."""
        inner = type(self)(config=self.config, server_state=self.server_state, app_state=self.app_state)
        inner.prover = None
        return inner

    def _hand_over(self, factory: LinkFactory | None) -> None:
        """From here on uvicorn knows nothing of this connection."""
        self._decided()
        raw, rest = self._raw, self._first[door.LENGTH :]
        assert raw is not None
        if factory is None:
            _log.warning("a connection asked for something unknown", first=self._first[: door.LENGTH])
            raw.close()
            return
        self.connections.discard(self)
        self._unset_keepalive_if_required()
        notice_death(raw)
        link = factory()
        raw.set_protocol(link)
        link.connection_made(raw)
        if rest and not raw.is_closing():
            link.data_received(rest)

    # Patience: from the first byte of a request to the end of its head

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        self._decided()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._decided()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._decided()
        self._patience = self.loop.call_later(DECISIVE_S, self._hang_up)

    def _decided(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _hang_up(self) -> None:
        answering = self.cycle is not None and not self.cycle.response_complete  # type: ignore[redundant-expr]  # None at first
        if answering:
            self._wait()  # an earlier request on this connection has its answer first
        elif self._raw is not None:
            self._raw.abort()


def http_protocol(
    agents: LinkFactory | None, peers: LinkFactory | None, prove: Prover | None = None
) -> type[OnePortProtocol]:
    """For `uvicorn.Config(http=…)`. A kind of caller without a factory is not served here."""
    said = {door.AGENT: agents, door.PEER: peers}

    class Bound(OnePortProtocol):
        prover = prove
        links = {word: factory for word, factory in said.items() if factory is not None}  # noqa: RUF012  bound once

    return Bound


class ApiServer(uvicorn.Server):
    """uvicorn as one part of a process, whose signals are not its business; only TCP speaks TLS."""

    def __init__(
        self, config: uvicorn.Config, tcp: socket.socket | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(config)
        self._tcp, self._tls = tcp, tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """`sockets`: those that stay plain, the unix ones."""
        await super().startup(sockets)
        if self._tcp is None:
            return
        config, loop = self.config, asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            made = cast("type[OnePortProtocol]", config.http_protocol_class)
            return made(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        async def shake_hands(sock: socket.socket) -> None:
            await loop.connect_accepted_socket(
                protocol,
                sock,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )

        if self._tls is None:
            self.servers.append(await loop.create_server(protocol, sock=self._tcp, backlog=BACKLOG))
        else:
            self.servers.append(Doorman(self._tcp, shake_hands))  # type: ignore[arg-type]  # uvicorn only closes it

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
