"""Parts of a job's output in the API's JSON form, read from a stream of lines."""

from __future__ import annotations

import json
from binascii import a2b_base64

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

JSON_LINES = "application/x-ndjson"


def parts_of(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """One object per whole line; a line that is cut off at the end is left out."""
    rest = bytearray()
    for piece in pieces:
        if b"\n" not in piece:
            rest += piece
            continue
        *lines, last = (bytes(rest) + piece).split(b"\n")
        rest[:] = last
        for line in lines:
            yield json.loads(line)


def chunks_of(part: dict[str, Any]) -> Iterator[tuple[str | None, bytes]]:
    """(when it arrived, the bytes as they were written)."""
    for chunk in part["chunks"]:
        packed = chunk.get("base64")
        yield chunk["time"], a2b_base64(packed) if packed else chunk.get("text", "").encode()
