"""Limit of wrong guesses by address: they cost time, and fill neither the log nor the database."""

import time
from collections.abc import Callable

from tgpu.api.problems import ProblemError

_MOST_FAILURES = 10
_WITHIN_S = 60.0
_MOST_KEPT = 10_000


class FailureLimit:
    """An address is over the limit until the oldest of its last ten failures is a minute old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: dict[str, list[float]] = {}

    def is_over(self, who: str) -> bool:
        return len(self._recent(who)) >= _MOST_FAILURES

    def refusal(self, who: str, what: str) -> ProblemError:
        """Of a guess by an address that is over the limit. `what` was guessed, such as `join token`."""
        recent = self._recent(who)
        wait_s = max(1, round(recent[0] + _WITHIN_S - self._clock())) if recent else 1
        return ProblemError(
            429,
            "too-many-failures",
            f"this {what} is wrong, as were too many others from {who}; try again in {wait_s} s",
            headers={"Retry-After": str(wait_s)},
        )

    def failed(self, who: str) -> None:
        if len(self._failures) >= _MOST_KEPT:
            self._failures.clear()
        self._failures[who] = [*self._recent(who), self._clock()][-_MOST_FAILURES:]

    def _recent(self, who: str) -> list[float]:
        since = self._clock() - _WITHIN_S
        return [at for at in self._failures.get(who, ()) if at > since]
