"""The caller's end of a proof on a plain port: no secret is sent to a process that is not a server."""

import asyncio
import socket
import ssl
from dataclasses import dataclass

from tgpu.client.server_account import distrust_of
from tgpu.protocol import door, server_proof
from tgpu.protocol.framing import FramingError, encode, from_prover
from tgpu.protocol.server_proof import FromProver, Opening, Role, Vouched
from tgpu.wiring.trust import client_context

_PIECE = 65536


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller and its servers both know; `digest` is of the caller's secret, which is not sent."""

    role: Role
    name: str
    digest: str


class UnprovenError(OSError):
    """The process that took the call did not prove itself; the text says what that may mean."""


class UnknownHereError(Exception):
    """A server does not know this caller; it runs as root or as this user, so it is believed."""


async def prove(sock: socket.socket, url: str, credential: Credential) -> ssl.SSLContext:
    """What to speak TLS with on this connection, to `server_proof.SERVER_NAME`. Raises OSError, and
    UnknownHereError."""
    loop, reader = asyncio.get_running_loop(), from_prover()
    asked = server_proof.opening(credential.role, credential.name)
    answers: list[FromProver] = []
    try:
        await loop.sock_sendall(sock, door.PROVE + encode(asked))
        while not answers:
            data = await loop.sock_recv(sock, _PIECE)
            if not data:
                raise _unproven(url)
            answers = reader.feed(data)
    except (FramingError, ConnectionError):
        raise _unproven(url) from None
    return _context(sock, url, credential, asked, answers[0])


def prove_and_wait(sock: socket.socket, url: str, credential: Credential) -> ssl.SSLContext:
    """The same, for a thread that may wait."""
    reader, answers = from_prover(), list[FromProver]()
    asked = server_proof.opening(credential.role, credential.name)
    try:
        sock.sendall(door.PROVE + encode(asked))
        while not answers:
            data = sock.recv(_PIECE)
            if not data:
                raise _unproven(url)
            answers = reader.feed(data)
    except (FramingError, ConnectionError):
        raise _unproven(url) from None
    return _context(sock, url, credential, asked, answers[0])


def _context(
    sock: socket.socket, url: str, credential: Credential, asked: Opening, answer: FromProver
) -> ssl.SSLContext:
    if not isinstance(answer, Vouched):
        if distrust_of(sock) is None:
            raise UnknownHereError(answer.why)
        raise _unproven(url)
    if not server_proof.is_proven(credential.digest, asked, answer):
        raise _unproven(url)
    try:
        return client_context(answer.ca_pem)
    except (OSError, ValueError):
        raise _unproven(url) from None


def _unproven(url: str) -> UnprovenError:
    return UnprovenError(
        f"the process at {url} did not prove that it is a server of this cluster, so no secret was sent: "
        "another process may hold the port, or the server is older than this version (upgrade the server "
        "first), or it speaks TLS (write https in place of http)"
    )
