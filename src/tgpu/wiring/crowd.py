"""Agents that have not shown their key yet: how many there may be, and how much is held of what they said."""

from collections import Counter

MOST_STRANGERS = 16_384
"""More than a cluster has nodes: after a change of leader they all come at once."""
MOST_BYTES = 128 * 1024 * 1024
MOST_BYTES_PER_SOURCE = 32 * 1024 * 1024
"""Of one address: thousands of nodes may stand behind one gateway."""
LONGEST_FRAME = 1024 * 1024
"""Of one stranger: a hello with thousands of attempts."""


class CrowdedError(Exception):
    """No room for one more stranger, or for one more byte of theirs."""


class Crowd:
    """One for all links of a server."""

    def __init__(
        self,
        most: int = MOST_STRANGERS,
        most_bytes: int = MOST_BYTES,
        most_bytes_per_source: int = MOST_BYTES_PER_SOURCE,
    ) -> None:
        self._most, self._most_bytes, self._most_per_source = most, most_bytes, most_bytes_per_source
        self.strangers = 0
        self._held: Counter[str] = Counter()

    @property
    def bytes(self) -> int:
        return self._held.total()

    def enter(self, source: str = "") -> "Stranger":
        """`source`: the address that the bytes are counted for. Raises CrowdedError."""
        if self.strangers >= self._most:
            raise CrowdedError(f"{self.strangers} connections have not said who they are")
        return Stranger(self, source)

    def hold(self, source: str, size: int) -> None:
        """Raises CrowdedError."""
        if self.bytes + size > self._most_bytes or self._held[source] + size > self._most_per_source:
            raise CrowdedError(
                f"{self.bytes} bytes are held of connections that have not said who they are, "
                f"{self._held[source]} of them of this address"
            )
        self._held[source] += size

    def let_go(self, source: str, size: int) -> None:
        self._held[source] -= size
        if self._held[source] <= 0:
            del self._held[source]


class Stranger:
    """One of the crowd, until it leaves: known by then, or gone."""

    def __init__(self, crowd: Crowd, source: str) -> None:
        self._crowd: Crowd | None = crowd
        self._source = source
        self._bytes = 0
        crowd.strangers += 1

    def said(self, size: int) -> None:
        """Raises CrowdedError."""
        if self._crowd is not None:
            self._crowd.hold(self._source, size)
            self._bytes += size

    def leave(self) -> None:
        if self._crowd is not None:
            self._crowd.strangers -= 1
            self._crowd.let_go(self._source, self._bytes)
            self._crowd = None
