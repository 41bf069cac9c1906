"""Heartbeats that the leader has acknowledged, and how long an agent waits for that."""

from collections import deque
from dataclasses import dataclass

ANSWER_BEATS = 0.7
"""How many heartbeats long a leader may be silent that has taken this node in…"""
GREETING_BEATS = 1.6
"""…and any other server: a new leader may have very many nodes to take in."""
LEAST_PATIENCE_S = 3.0
"""A busy server needs that long to commit what it was told."""
LONGEST_PATIENCE_S = 30.0
"""For a greeting: the more often it was missed, the longer it is waited for. The server may be at work for
other nodes, and a node that hangs up only makes more work for it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a server may take before it counts as gone, and another one is tried."""

    heartbeat_s: float

    def for_answer_s(self, *, taken_in: bool) -> float:
        beats = ANSWER_BEATS if taken_in else GREETING_BEATS
        return max(beats * self.heartbeat_s, LEAST_PATIENCE_S)

    def for_greeting_s(self, missed: int) -> float:
        """`missed`: how often there was none so far."""
        first_s = max(GREETING_BEATS * self.heartbeat_s, LEAST_PATIENCE_S)
        return max(first_s, min(first_s * (1 << missed), LONGEST_PATIENCE_S))


class Unanswered:
    """Of one stream; when the last acknowledged one was sent is remembered beyond it."""

    def __init__(self) -> None:
        self.last_heard: float | None = None
        self._waiting: deque[tuple[float, int]] = deque()

    def sent(self, at: float, stamp_ns: int) -> None:
        """`stamp_ns`: the same moment on the clock that goes on while the machine sleeps."""
        self._waiting.append((at, stamp_ns))

    def heard(self, sent: float) -> int | None:
        """Answers come in order: a later one stands for those before it. Returns the stamp of the latest, or
        None if it answers another stream, or nothing that was ever said."""
        stamp_ns = None
        if self._waiting and self._waiting[0][0] <= sent <= self._waiting[-1][0]:
            self.last_heard = sent
            while self._waiting and self._waiting[0][0] <= sent:
                _, stamp_ns = self._waiting.popleft()
        return stamp_ns

    def waits_for(self, sent: float) -> bool:
        return bool(self._waiting) and self._waiting[0][0] <= sent

    def clear(self) -> None:
        self._waiting.clear()
