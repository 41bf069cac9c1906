"""Which of a cluster's servers an agent calls: the leader if it knows one, else each in turn."""

import asyncio
import math
import socket
import ssl
from collections.abc import Callable, Sequence
from random import Random
from urllib.parse import urlsplit

from tgpu.agent.channel import Listener
from tgpu.agent.shell import AgentRefusedError
from tgpu.observe.logs import logger
from tgpu.protocol import door
from tgpu.protocol.node_keys import digest_of
from tgpu.protocol.server_proof import SERVER_NAME, Role
from tgpu.wiring.addresses import reach
from tgpu.wiring.proof_check import Credential, UnknownHereError, UnprovenError, prove
from tgpu.wiring.server_link import ServerLink
from tgpu.wiring.stream_options import GOODBYE_S, notice_death
from tgpu.wiring.trust import client_context

CONNECT_S = 5.0
FIRST_PATIENCE_S = 8.0
LONGEST_PATIENCE_S = 30.0
"""For the handshake: a server to which ten thousand nodes come at once takes its time."""
NOTICED_S = 3.0
"""So long after a leader fell silent the others may still name it. If they do so later, it is there again: it
has renewed its lease since."""
MOST_SERVERS = 16
_log = logger("dial")


class _DialledLink(ServerLink):
    """Says first what it is: the port serves others too."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        notice_death(transport)
        assert self._transport is not None
        self._transport.write(door.AGENT)


def node_credential(node_id: str, key: str) -> Credential:
    return Credential(Role.NODE, node_id, digest_of(key))


class TcpDial:
    """Calls, and is the agent's guide; `remember` keeps for good which servers there are. On a plain port the
    server has to prove by `credential` that it knows this node, and TLS follows: the key is never sent in the
    clear."""

    def __init__(
        self,
        servers: Sequence[str],
        ca_pem: str | None,
        random: Random,
        remember: Callable[[tuple[str, ...]], None] = lambda _servers: None,
        credential: Credential | None = None,
    ) -> None:
        self._servers = tuple(servers)
        self._random = random
        self._remember = remember
        self._credential = credential
        self._encrypted = all(url.startswith("https://") for url in servers)
        self._tls = client_context(ca_pem) if self._encrypted else None
        self._leader: str | None = None
        self._silent: dict[str, float] = {}
        """Who took the call, or was called, and did not answer, and when that was: it costs seconds to ask
        again."""
        self._refused: set[str] = set()
        """Who could not be called in this round: if it led, the others may take a moment to notice."""
        self._followed: set[str] = set()
        """Leaders that were named in this round: two that name each other are not believed for ever."""
        self._called = ""
        self._tried: set[str] = set()
        self._patience_s = FIRST_PATIENCE_S
        self._complaint = ""

    async def __call__(self, listener: Listener) -> ServerLink:
        self._called = self._choose()
        self._tried.add(self._called)
        try:
            link = await self._connect(self._called, listener)
        except OSError as error:
            self._leader = None
            if isinstance(error, TimeoutError):
                self._fell_silent()
            else:
                self._refused.add(self._called)
            self._complain(error)
            raise
        self._patience_s, self._complaint = FIRST_PATIENCE_S, ""
        return link

    def _choose(self) -> str:
        if self._leader is not None:
            return self._leader
        left = [url for url in self._servers if url not in self._tried]
        if not left:
            self._begin_round()
            left = list(self._servers)
        return self._random.choice(left)

    async def _connect(self, url: str, listener: Listener) -> ServerLink:
        parts, loop = urlsplit(url), asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            sock = await reach(parts.hostname or "", parts.port or 0)
        try:
            async with asyncio.timeout(self._patience_s):
                context = self._tls or await self._proven(sock, url)
                _, link = await loop.create_connection(
                    lambda: _DialledLink(listener),
                    sock=sock,
                    ssl=context,
                    server_hostname=parts.hostname if self._tls else SERVER_NAME,
                    ssl_handshake_timeout=LONGEST_PATIENCE_S,
                    ssl_shutdown_timeout=GOODBYE_S,
                )
        except BaseException as error:
            sock.close()
            if isinstance(error, TimeoutError):
                self._patience_s = min(2 * self._patience_s, LONGEST_PATIENCE_S)
            raise
        return link

    async def _proven(self, sock: socket.socket, url: str) -> ssl.SSLContext:
        if self._credential is None:
            raise UnprovenError(
                f"{url} is plain, and this node has no key by which a server could prove itself"
            )
        try:
            return await prove(sock, url, self._credential)
        except UnknownHereError as error:
            raise AgentRefusedError(str(error)) from None

    def _complain(self, error: OSError) -> None:
        """Once for each reason, however often it is tried."""
        why = str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            why = (
                "it is not a server of the cluster that this node has joined, or somebody stands in between "
                f"({error.verify_message}): check --server, or join that cluster with a token of its own"
            )
        complaint = f"{self._called}: {why or type(error).__name__}"
        if complaint != self._complaint:
            self._complaint = complaint
            _log.warning("a server cannot be reached", server=self._called, why=why or "no answer")

    @property
    def called(self) -> str:
        """Whom it called last."""
        return self._called

    # The guide

    def welcomed(self, servers: tuple[str, ...]) -> None:
        self._leader = self._called
        self._silent.clear()
        self._begin_round()
        self._learn((self._called, *servers))

    def sent_on(self, leader: str | None, servers: tuple[str, ...]) -> bool:
        self._learn(servers)
        self._leader = None
        if leader is None or leader in self._refused or not self._may_call(leader):
            return False
        if asyncio.get_running_loop().time() - self._silent.get(leader, -math.inf) < NOTICED_S:
            return False
        self._leader = leader
        is_new = leader not in self._followed
        self._followed.add(leader)
        return is_new

    def silent(self) -> None:
        self._leader = None
        self._fell_silent()
        self._tried.add(self._called)

    def _fell_silent(self) -> None:
        self._silent[self._called] = asyncio.get_running_loop().time()

    def _begin_round(self) -> None:
        """Everybody was asked, or one of them leads: whoever could not be called may be there again."""
        self._tried.clear()
        self._refused.clear()
        self._followed.clear()

    def _learn(self, servers: Sequence[str]) -> None:
        """Those that are away now are kept as well: they may be the ones that are there next time."""
        usable = [url for url in servers if self._may_call(url)]
        known = tuple(dict.fromkeys([*usable, *self._servers]))[:MOST_SERVERS]
        if set(known) != set(self._servers):
            self._remember(known)
        self._servers = known

    def _may_call(self, url: str) -> bool:
        """A node that was told to speak TLS is not talked out of it."""
        try:
            parts = urlsplit(url)
            usable = bool(parts.hostname and parts.port)
        except ValueError:
            return False
        return usable and parts.scheme == ("https" if self._encrypted else "http")
