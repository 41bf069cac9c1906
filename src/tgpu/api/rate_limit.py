"""Rate limit: how often something may happen within a minute, by address or user."""

import time
from collections.abc import Callable

_WITHIN_S = 60.0
_MOST_KEPT = 10_000


class RateLimit:
    """A key is over the limit until the oldest of its last `most` events is a minute old."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._events: dict[str, list[float]] = {}

    def is_over(self, key: str) -> bool:
        return len(self._recent(key)) >= self._most

    def wait_s(self, key: str) -> int:
        """Until a key that is over the limit is below it again."""
        recent = self._recent(key)
        return max(1, round(recent[0] + _WITHIN_S - self._clock())) if recent else 1

    def count(self, key: str) -> None:
        if len(self._events) >= _MOST_KEPT:
            self._events.clear()
        self._events[key] = [*self._recent(key), self._clock()][-self._most :]

    def _recent(self, key: str) -> list[float]:
        since = self._clock() - _WITHIN_S
        return [at for at in self._events.get(key, ()) if at > since]
