"""The server's end of a proof on a plain port: vouches for this process's own authority, then speaks TLS."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, cast

from tgpu.observe.logs import logger
from tgpu.protocol.framing import FramingError, encode, from_callers
from tgpu.protocol.server_proof import SERVER_NAME, Opening, Role, Unknown, Vouched, handle, mac
from tgpu.store.cluster_port import JoinToken
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring import cluster_ca
from tgpu.wiring.connection_limits import Visit
from tgpu.wiring.key_ring import KeyRing, Keys, not_joined
from tgpu.wiring.stream_options import GOODBYE_S
from tgpu.wiring.tls import OwnTls

PATIENCE_S = 10.0
"""For the caller's opening, and for it to go once it is not known here."""
STORE_AWAY_S = 60.0
"""How long a caller is kept while the store is away: whoever waits here is answered as soon as it is back."""
STORE_RETRY_S = 0.5
HANDSHAKE_S = 30.0
_log = logger("prover")


class Known(Keys, Protocol):
    """What is asked of the store."""

    @property
    def cluster_id(self) -> str: ...

    async def join_tokens(self) -> Sequence[JoinToken]: ...


class Prover:
    """One per plain port. Its authority lasts as long as the process."""

    def __init__(self, known: Known, peer_digest: str) -> None:
        """`peer_digest`: of the secret that the servers of this cluster share."""
        authority = cluster_ca.load(cluster_ca.found(known.cluster_id, cluster_ca.utc_now()))
        self._tls = OwnTls(authority, [SERVER_NAME], cluster_ca.utc_now)
        self._known, self._peer_digest = known, peer_digest
        self._ring = KeyRing(known)
        self._digests: Mapping[str, Callable[[str], Awaitable[str | None]]] = {
            Role.NODE: self._ring.digest,
            Role.NEWCOMER: self._token,
            Role.PEER: self._peer,
        }

    @property
    def context(self) -> ssl.SSLContext:
        self._tls.refresh()
        return self._tls.context

    async def answer(self, asked: Opening) -> Vouched | Unknown:
        """Raises StoreUnavailableError."""
        find = self._digests.get(asked.role)
        digest = None if find is None else await find(asked.name)
        if digest is None:
            return Unknown(why=_why_unknown(asked))
        ca_pem = self._tls.ca_pem
        assert ca_pem is not None, "an authority of its own has a certificate"
        return Vouched(ca_pem=ca_pem, mac=mac(digest, asked, ca_pem))

    async def _token(self, name: str) -> str | None:
        """Worthless tokens too: that they are is said behind the proof."""
        tokens = await self._known.join_tokens()
        return next((token.digest for token in tokens if handle(token.digest) == name), None)

    async def _peer(self, name: str) -> str | None:
        return self._peer_digest if name == self._known.cluster_id else None


def _why_unknown(asked: Opening) -> str:
    match asked.role:
        case Role.NODE:
            return not_joined(asked.name)
        case Role.NEWCOMER:
            return (
                "this join token is not known here, or was revoked; "
                "an administrator makes one with `tgpu nodes join-token`"
            )
    return "this server belongs to another cluster, or knows no such callers"


class ProofLink(asyncio.Protocol):
    """One connection until TLS stands; from then on it is `behind`'s."""

    def __init__(self, prover: Prover, behind: Callable[[Visit], asyncio.Protocol], visit: Visit) -> None:
        self._prover, self._behind, self._visit = prover, behind, visit
        self._reader = from_callers()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._proving: asyncio.Task[None] | None = None
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self._wait(self._transport, PATIENCE_S)
        self._visit.make_way = self._make_way

    def _wait(self, transport: asyncio.Transport, seconds: float) -> None:
        self._decided()
        self._patience = self._loop.call_later(seconds, transport.abort)

    def _make_way(self) -> bool:
        assert self._transport is not None
        self._transport.abort()
        return True

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        try:
            openings = self._reader.feed(data)
        except FramingError as error:
            _log.warning("a connection was cut", why=str(error))
            self._transport.abort()
            return
        if len(openings) > 1 or (openings and self._proving is not None):
            self._transport.abort()  # nothing may follow an opening before it is answered
        elif openings:
            self._wait(self._transport, STORE_AWAY_S)
            self._proving = self._loop.create_task(self._prove(self._transport, openings[0]))

    async def _answer(self, asked: Opening) -> Vouched | Unknown:
        """Not cut off while the store is away: nodes that are sent away again and again come back too late
        for the next leader, and count as lost."""
        while True:
            try:
                return await self._prover.answer(asked)
            except StoreUnavailableError:
                await asyncio.sleep(STORE_RETRY_S)

    async def _prove(self, transport: asyncio.Transport, asked: Opening) -> None:
        answer = await self._answer(asked)
        transport.write(encode(answer))
        if isinstance(answer, Unknown):
            self._wait(transport, PATIENCE_S)
            return  # the caller hangs up once it has looked whose process this is
        self._decided()
        early, handed_over = _Early(), False
        try:
            made = await self._loop.start_tls(
                transport,
                early,
                self._prover.context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=GOODBYE_S,
            )
            if made is not None and not early.is_lost:
                handed_over = True
                early.hand_over(made, self._behind(self._visit))
        except OSError:  # a caller that hangs up, or does not believe it
            pass
        finally:
            if not handed_over:
                self._visit.leave()

    def _decided(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        self._decided()
        self._visit.leave()
        if self._proving is not None:
            self._proving.cancel()


class _Early(asyncio.Protocol):
    """Keeps what comes between the end of the handshake and the hand-over."""

    def __init__(self) -> None:
        self._data = b""
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        self._data += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        self.is_lost = True

    def hand_over(self, transport: asyncio.Transport, to: asyncio.Protocol) -> None:
        transport.set_protocol(to)
        to.connection_made(transport)
        if self._data and not transport.is_closing():
            to.data_received(self._data)
