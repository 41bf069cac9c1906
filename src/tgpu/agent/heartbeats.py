"""Which heartbeats the leader has acknowledged: by them an agent knows whether anybody listens."""

from collections import deque


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
