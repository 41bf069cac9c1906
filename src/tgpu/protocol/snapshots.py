"""What an agent says to get a snapshot of a user's code, and what it is told: one piece at a time."""

import msgspec

PIECE = 512 * 1024
"""The most that is sent at once: what else is said on the stream must not wait for long."""


class WantSnapshot(msgspec.Struct, frozen=True, kw_only=True, tag="want-snapshot"):
    request: int
    user: str
    digest: str
    offset: int


class SnapshotPart(msgspec.Struct, frozen=True, kw_only=True, tag="snapshot-part"):
    """An answer to WantSnapshot."""

    request: int
    data: bytes = b""
    total: int = 0
    error: str = ""
    """Why it cannot be had, which asking again would not change."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What one server has of it for another; of nothing if it has none."""

    data: bytes = b""
    total: int = 0
