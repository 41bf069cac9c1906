"""Limit of wrong guesses by address: they cost time, and fill neither the log nor the database."""

import time
from collections.abc import Callable

from tgpu.api.problems import ProblemError
from tgpu.api.rate_limit import RateLimit

_MOST_FAILURES = 10


class FailureLimit:
    """An address is over the limit until the oldest of its last ten failures is a minute old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures = RateLimit(_MOST_FAILURES, clock)

    def is_over(self, who: str) -> bool:
        return self._failures.is_over(who)

    def refusal(self, who: str, what: str) -> ProblemError:
        """Of a guess by an address that is over the limit. `what` was guessed, such as `join token`."""
        wait_s = self._failures.wait_s(who)
        return ProblemError(
            429,
            "too-many-failures",
            f"this {what} is wrong, as were too many others from {who}; try again in {wait_s} s",
            headers={"Retry-After": str(wait_s)},
        )

    def failed(self, who: str) -> None:
        self._failures.count(who)
