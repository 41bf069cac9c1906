"""How the nodes of a job talk about steps: each knows the job's key; then lines of JSON, and frames."""

from __future__ import annotations

import hmac
import json
import os
import socket
import struct

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

OUT, ERR, END = 1, 2, 3
STREAMS = {"stdout": OUT, "stderr": ERR}
_FRAME = struct.Struct(">BII")
_LONGEST_LINE = 4 << 20
_MOST_BYTES = 1 << 20


class NotOursError(Exception):
    """The other end does not know the job's key."""


def key_of(environ: Mapping[str, str]) -> bytes:
    key = environ.get("TGPU_STEP_KEY", "")
    if not key:
        raise NotOursError("TGPU_STEP_KEY is not set: this is no job on several nodes")
    return key.encode()


def desk_name(environ: Mapping[str, str]) -> str:
    """Where `srun` finds the desk, on the job's first node."""
    job = "/".join(environ.get(name, "") for name in ("TGPU_JOB_ID", "TGPU_TASK_INDEX", "TGPU_ATTEMPT"))
    return f"\0tgpu-desk/{os.getuid()}/{job}"


def said_by_caller(nonce: str, own: str, hello: str, key: bytes) -> str:
    return hmac.digest(key, f"caller {nonce} {own} {hello}".encode(), "sha256").hex()


def said_by_desk(nonce: str, own: str, hello: str, key: bytes) -> str:
    return hmac.digest(key, f"desk {nonce} {own} {hello}".encode(), "sha256").hex()


def call(address: tuple[str, int], key: bytes, hello: Mapping[str, object]) -> tuple[socket.socket, BinaryIO]:
    """A connection to the desk, each end of which has shown that it knows the key; and what comes from it,
    of which some may have been read ahead."""
    sock = socket.create_connection(address, timeout=20)
    lines = sock.makefile("rb")
    nonce = lines.readline(200).decode().strip()
    own, text = os.urandom(16).hex(), json.dumps(hello)
    sock.sendall(f"{own} {said_by_caller(nonce, own, text, key)} {text}\n".encode())
    if not hmac.compare_digest(lines.readline(200).decode().strip(), said_by_desk(nonce, own, text, key)):
        sock.close()
        raise NotOursError("whoever answers there is not the job's first node")
    sock.settimeout(None)
    return sock, lines


def write_line(sock: socket.socket, what: object) -> None:
    sock.sendall(json.dumps(what).encode() + b"\n")


def read_line(lines: BinaryIO) -> Any:  # noqa: ANN401  whatever JSON was sent
    """None at the end."""
    line = lines.readline(_LONGEST_LINE)
    return json.loads(line) if line.endswith(b"\n") else None


def frame(kind: int, rank: int, data: bytes = b"", code: int = 0) -> bytes:
    """What a task printed, or of an end its exit code."""
    return _FRAME.pack(kind, rank, code if kind == END else len(data)) + data


def read_frame(stream: BinaryIO) -> tuple[int, int, bytes, int] | None:
    """Kind, rank, bytes and exit code; None at the end."""
    head = stream.read(_FRAME.size)
    if len(head) < _FRAME.size:
        return None
    kind, rank, number = _FRAME.unpack(head)
    if kind == END:
        return kind, rank, b"", number
    return (kind, rank, stream.read(number), 0) if number <= _MOST_BYTES else None
