"""Pace of one node: how much of what it says is taken at once, and how much per second after that.

Agents speak a few times per second, and for each task that starts and ends. A node that says far more would
take the whole time of the leader. What exceeds its pace stays unread for a while, and no other node waits.
"""

from tgpu.protocol.messages import FromAgent, Heartbeat, Hello, Report
from tgpu.protocol.snapshots import WantSnapshot

BURST = 50_000.0
"""Units that are taken at once: a node with so many attempts may connect, or report that all have ended."""
PER_SECOND = 5_000.0
NODE_UNITS = 100
"""Of a message that may describe the node differently: that is written to the store."""
_ANSWER_UNITS = 20
"""Of a request for which the server reads a file."""
_BYTES_PER_UNIT = 65_536


class NodePace:
    """`now` is the loop's time, in every call."""

    def __init__(self, now: float) -> None:
        self._left, self._at = BURST, now

    def charge(self, units: float, now: float) -> float:
        """Returns how many seconds nothing more of this node is to be read."""
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND) - units
        self._at = now
        return max(0.0, -self._left / PER_SECOND)


class NodePaces:
    """Of all nodes of a server: a node that connects again keeps its pace."""

    def __init__(self) -> None:
        self._of: dict[str, NodePace] = {}

    def of(self, node_id: str, now: float) -> NodePace:
        return self._of.setdefault(node_id, NodePace(now))


def units_of_bytes(size: int) -> float:
    return size / _BYTES_PER_UNIT


def units_of(message: FromAgent) -> int:
    match message:
        case Report():
            return 1 + len(message.attempts)
        case Hello():
            return NODE_UNITS + len(message.attempts)
        case Heartbeat() if message.capacity is not None or message.labels is not None:
            return NODE_UNITS
        case Heartbeat() if message.disk_shortage:
            return _ANSWER_UNITS
        case WantSnapshot():
            return _ANSWER_UNITS
        case _:
            return 1
