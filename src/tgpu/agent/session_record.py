"""Record of the sessions in which servers admitted this node: tells the node from a copy of its home.

A number is recorded before the hello of its session is said, and is confirmed once the server has committed
that hello. So the session that the server knows as the node's last one is always in the record of the node
itself. The record of a copy stays behind as soon as the node begins another session.
"""

import asyncio
from collections.abc import Awaitable, Callable

MOST_UNCONFIRMED = 1000
"""Sessions in a row that no server confirmed, as while a store is away."""
Save = Callable[[tuple[int, ...]], Awaitable[bool]]


async def _forget(_kept: tuple[int, ...]) -> bool:
    return True


class SessionRecord:
    """The last confirmed session (0: none), then those that may have been committed since."""

    def __init__(self, kept: tuple[int, ...] = (0,), save: Save = _forget) -> None:
        """`save` says whether it could."""
        self._kept, self._save = kept or (0,), save
        self._writing = asyncio.Lock()

    async def offer(self, number: int) -> tuple[int, ...] | None:
        """What was recorded before this session; None if it cannot be recorded, and must not be counted."""
        async with self._writing:
            confirmed, *others = known = self._kept
            unconfirmed = [*others, number][-MOST_UNCONFIRMED:]
            return known if await self._keep((confirmed, *unconfirmed)) else None

    async def confirm(self, number: int | None) -> None:
        async with self._writing:
            if number in self._kept[1:]:
                await self._keep(self._kept[self._kept.index(number) :])

    async def _keep(self, kept: tuple[int, ...]) -> bool:
        saved = await self._save(kept)
        if saved:
            self._kept = kept
        return saved
