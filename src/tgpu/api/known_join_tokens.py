"""Join tokens that are good, for addresses that have guessed too often: a right token always gets in."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from tgpu.store.cluster_port import JoinToken

READ_EVERY_S = 1.0


class Tokens(Protocol):
    """What is asked of the store."""

    async def join_tokens(self) -> list[JoinToken]: ...


class KnownJoinTokens:
    """Read from the store at most once a second, however many guesses there are. A token that is not known
    yet may be new: it is looked for in the next reading."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._digests: frozenset[str] = frozenset()
        self._read_at = float("-inf")
        self._next: asyncio.Task[None] | None = None

    async def has(self, digest: str, store: Tokens, at_ms: int) -> bool:
        """Raises StoreUnavailableError."""
        if digest not in self._digests:
            if self._next is None:
                self._next = asyncio.create_task(self._read(store, at_ms))
            await asyncio.shield(self._next)
        return digest in self._digests

    async def _read(self, store: Tokens, at_ms: int) -> None:
        await asyncio.sleep(max(0.0, self._read_at + READ_EVERY_S - self._clock()))
        self._next, self._read_at = None, self._clock()  # a guess from now on needs a later reading
        self._digests = frozenset(
            token.digest
            for token in await store.join_tokens()
            if not token.revoked
            and token.uses_left != 0
            and (token.expires_ms is None or token.expires_ms > at_ms)
        )
