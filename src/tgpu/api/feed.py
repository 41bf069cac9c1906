"""Wakes those who follow events. It carries no events itself: who is woken reads the store from where they
stood, so nothing is lost or doubled, and a slow reader costs one flag."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager

from tgpu.api.problems import ProblemError
from tgpu.domain.job import Event

Page = tuple[int, Sequence[Event]]
"""The number of the newest event, and events after some other one."""
_MOST = 512
_MOST_PER_USER = 64


class Feed:
    def __init__(self) -> None:
        self._flags: set[asyncio.Event] = set()
        self._per_user: Counter[str] = Counter()
        self.closed = False
        self._reads: dict[int, asyncio.Task[Page]] = {}
        self.wakes = 0
        """How often events may have been written: by it a stream that was woken for another reason knows that
        there is nothing to read."""

    def publish(self, events: Sequence[Event]) -> None:
        """Called on the event loop after a commit."""
        if events:
            self.wake()

    def wake(self) -> None:
        self.wakes += 1
        self._reads.clear()
        for flag in self._flags:
            flag.set()

    def close(self) -> None:
        """Ends every stream, so that a server that stops need not wait for its readers."""
        self.closed = True
        self.wake()

    def check_room(self, user: str) -> None:
        """Raises ProblemError while so many follow that one more would be too many."""
        if len(self._flags) >= _MOST or self._per_user[user] >= _MOST_PER_USER:
            raise ProblemError(429, "too-many-streams", "too many streams are open; close some of them first")

    @contextmanager
    def subscription(self, user: str) -> Iterator[asyncio.Event]:
        """A flag that is set whenever something may have happened; whoever waits on it clears it."""
        flag = asyncio.Event()
        self._flags.add(flag)
        self._per_user[user] += 1
        try:
            yield flag
        finally:
            self._flags.discard(flag)
            self._per_user[user] -= 1
            if not self._per_user[user]:
                del self._per_user[user]

    async def page(self, after: int, read: Callable[[], Coroutine[None, None, Page]]) -> Page:
        """Events after this one, read once for all streams that stand there."""
        reading = self._reads.get(after)
        if reading is None:
            reading = self._reads[after] = asyncio.get_running_loop().create_task(read())
            reading.add_done_callback(lambda done: self._forget(after, done))
        return await asyncio.shield(reading)

    def _forget(self, after: int, done: "asyncio.Task[Page]") -> None:
        if self._reads.get(after) is done:
            del self._reads[after]


async def next_wake(flag: asyncio.Event, timeout_s: float) -> bool:
    """Whether something may have happened before the time was up."""
    try:
        async with asyncio.timeout(timeout_s):
            await flag.wait()
    except TimeoutError:
        return False
    flag.clear()
    return True
