"""Reads of the store that are asked for at the same time and made together.

All nodes come at once after a change of leader: those that come while the store is asked are asked about
together.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from tgpu.store.port import StoreUnavailableError

T = TypeVar("T")
_MOST_AT_ONCE = 500


class BatchedReads(Generic[T]):
    def __init__(self, read: Callable[[Sequence[str]], Awaitable[Sequence[T]]]) -> None:
        """`read` answers each name, in the same order."""
        self._read = read
        self._waiting: list[tuple[str, asyncio.Future[T]]] = []
        self._asking: asyncio.Task[None] | None = None

    def of(self, name: str) -> "asyncio.Future[T]":
        """Raises StoreUnavailableError when it is awaited."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._waiting.append((name, answer))
        if self._asking is None:
            self._asking = loop.create_task(self._ask())
        return answer

    async def _ask(self) -> None:
        try:
            while self._waiting:
                now, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
                await self._answer(now)
        finally:
            self._asking = None

    async def _answer(self, asked: "Sequence[tuple[str, asyncio.Future[T]]]") -> None:
        try:
            found = await self._read([name for name, _ in asked])
        except StoreUnavailableError as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(StoreUnavailableError(str(error)))
            return
        for (_, answer), one in zip(asked, found, strict=True):
            if not answer.done():  # the caller may be gone
                answer.set_result(one)
