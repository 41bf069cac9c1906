"""Turns for requests that read a lot: few at a time, one for each user, so that the scheduler keeps pace.

Pages of jobs are milliseconds of work: each user has four of them under way, so that requests of other users
never wait behind hundreds.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tgpu.api.problems import ProblemError

AT_ONCE = 2
PAGES_AT_ONCE = 4
"""Of one user."""
MOST_WAITING = 8
"""Of one user."""


class Turns:
    def __init__(self) -> None:
        self._all = asyncio.Semaphore(AT_ONCE)
        self._of_user: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._asked: Counter[str] = Counter()
        self._pages: dict[str, asyncio.Semaphore] = {}
        self._pages_asked: Counter[str] = Counter()

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

    @asynccontextmanager
    async def page(self, user: str) -> AsyncIterator[None]:
        """Waits while this user has `PAGES_AT_ONCE` under way."""
        self._pages_asked[user] += 1
        try:
            async with self._pages.setdefault(user, asyncio.Semaphore(PAGES_AT_ONCE)):
                yield
        finally:
            self._pages_asked[user] -= 1
            if not self._pages_asked[user]:
                del self._pages_asked[user], self._pages[user]
