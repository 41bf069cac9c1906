"""Those at the door who have not proved who they are: how many there may be, and how much they may say."""

MOST_STRANGERS = 16_384
"""More than a cluster has nodes: after a change of leader they all come at once."""
MOST_BYTES = 256 * 1024 * 1024
LONGEST_FRAME = 4 * 1024 * 1024
"""Of one stranger: a hello with thousands of attempts."""


class CrowdedError(Exception):
    """No room for one more stranger, or for one more word of theirs."""


class Crowd:
    """One for all links of a server."""

    def __init__(self, most: int = MOST_STRANGERS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self.strangers = 0
        self.bytes = 0

    def enter(self) -> "Stranger":
        """Raises CrowdedError."""
        if self.strangers >= self._most:
            raise CrowdedError(f"{self.strangers} connections have not said who they are")
        return Stranger(self)

    def hold(self, size: int) -> None:
        if self.bytes + size > self._most_bytes:
            raise CrowdedError(f"{self.bytes} bytes are held of connections that have not said who they are")
        self.bytes += size


class Stranger:
    """One of the crowd, until it leaves: known by then, or gone."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd: Crowd | None = crowd
        self._bytes = 0
        crowd.strangers += 1

    def said(self, size: int) -> None:
        """Raises CrowdedError."""
        if self._crowd is not None:
            self._crowd.hold(size)
            self._bytes += size

    def leave(self) -> None:
        if self._crowd is not None:
            self._crowd.strangers -= 1
            self._crowd.bytes -= self._bytes
            self._crowd = None
