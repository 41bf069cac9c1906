"""Proof that the process on a plain port is a server which knows the caller's secret.

The caller names itself and sends a nonce. The server answers with the certificate authority of this port and
a MAC over both, keyed by the digest of the caller's secret. The caller then speaks TLS and trusts that
authority alone: a process without the digest cannot make the MAC, and a process that relays it cannot read or
change what follows. The secret itself is sent only within that TLS.
"""

import hashlib
import hmac
import secrets
from enum import StrEnum

import msgspec

SERVER_NAME = "proven.tgpu"
"""For which the certificate behind a proof is made, whatever the server's address is."""
LONGEST = 64 * 1024
_CONTEXT = b"tgpu server proof 1"
_NONCE_BYTES = 32


class Role(StrEnum):
    """What the caller is; each role has secrets of its own."""

    NODE = "node"
    """Named by its node id, known by its key."""
    NEWCOMER = "newcomer"
    """Named by its join token's handle, known by that token."""
    PEER = "peer"
    """Another server: named by the cluster, known by the cluster's secret."""


class Opening(msgspec.Struct, frozen=True, kw_only=True, tag="opening"):
    role: str
    """A `Role`; a server has no secret for one that it does not know."""
    name: str
    nonce: bytes


class Vouched(msgspec.Struct, frozen=True, kw_only=True, tag="vouched"):
    ca_pem: str
    mac: bytes


class Unknown(msgspec.Struct, frozen=True, kw_only=True, tag="unknown"):
    """The server has no secret of this caller: `why` is not proven by anything."""

    why: str


FromProver = Vouched | Unknown


def opening(role: Role, name: str) -> Opening:
    return Opening(role=role, name=name, nonce=secrets.token_bytes(_NONCE_BYTES))


def digest_of(secret: str) -> str:
    """As servers keep keys and tokens."""
    return hashlib.sha256(secret.encode()).hexdigest()


def mac(digest: str, asked: Opening, ca_pem: str) -> bytes:
    """`digest`: of the caller's secret, in hexadecimal digits."""
    parts = (_CONTEXT, asked.role.encode(), asked.name.encode(), asked.nonce, ca_pem.encode())
    text = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return hmac.digest(digest.encode(), text, "sha256")


def is_proven(digest: str, asked: Opening, answer: Vouched) -> bool:
    return hmac.compare_digest(mac(digest, asked, answer.ca_pem), answer.mac)


def handle(digest: str) -> str:
    """By which a server finds a join token that is not shown to it."""
    return hashlib.sha256(b"tgpu join token " + digest.encode()).hexdigest()
