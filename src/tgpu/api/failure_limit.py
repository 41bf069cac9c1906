"""How often somebody may be wrong: guesses cost time, and fill neither the log nor the database."""

import time
from collections.abc import Callable

from tgpu.api.problems import ProblemError

_MOST_FAILURES = 10
_WITHIN_S = 60.0
_MOST_KEPT = 10_000


class FailureLimit:
    """By address; who has failed too often waits until the oldest failure is a minute old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, list[float]] = {}

    def check(self, who: str) -> None:
        """Raises ProblemError 429."""
        recent = self._recent(who)
        if len(recent) < _MOST_FAILURES:
            return
        wait_s = max(1, round(recent[0] + _WITHIN_S - self._clock()))
        raise ProblemError(
            429,
            "too-many-failures",
            f"too many failures from {who}; try again in {wait_s} s",
            headers={"Retry-After": str(wait_s)},
        )

    def failed(self, who: str) -> None:
        if len(self._failures) >= _MOST_KEPT:
            self._failures.clear()
        self._failures[who] = [*self._recent(who), self._clock()]

    def _recent(self, who: str) -> list[float]:
        since = self._clock() - _WITHIN_S
        return [at for at in self._failures.get(who, ()) if at > since]
