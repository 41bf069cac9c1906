"""Turns for requests that read a lot: few at a time, one for each user, so that the scheduler keeps pace."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tgpu.api.problems import ProblemError

AT_ONCE = 2
MOST_WAITING = 8
"""Of one user."""


class Turns:
    def __init__(self) -> None:
        self._all = asyncio.Semaphore(AT_ONCE)
        self._of_user: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._asked: Counter[str] = Counter()

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Raises ProblemError 429 if this user has many requests waiting already."""
        if self._asked[user] > MOST_WAITING:
            raise ProblemError(
                429,
                "too-many-requests",
                f"{MOST_WAITING} requests of this kind of yours wait already; send the next one when they "
                "are answered",
                headers={"Retry-After": "1"},
            )
        self._asked[user] += 1
        try:
            async with self._of_user[user], self._all:
                yield
        finally:
            self._asked[user] -= 1
            if not self._asked[user]:
                del self._asked[user]
                self._of_user.pop(user, None)
