"""Whether a node shows the key that it was given when it joined last: the store knows its digest."""

import asyncio
import hmac
from collections.abc import Sequence
from typing import Protocol

from tgpu.protocol.node_keys import digest_of
from tgpu.store.port import StoreUnavailableError

_MOST_AT_ONCE = 500


class Keys(Protocol):
    """What is asked of the store."""

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]: ...


def not_joined(node_id: str) -> str:
    return (
        f"node {node_id} has not joined this cluster, or was removed from it: "
        "join with a token from `tgpu nodes join-token`"
    )


class KeyRing:
    """Asks every time: a node that was removed, or whose name went to another machine, is not let in again.
    All nodes come at once after a change of leader: those who come while the store is asked are asked about
    together."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._waiting: list[tuple[str, asyncio.Future[str | None]]] = []
        self._asking: asyncio.Task[None] | None = None

    async def refusal(self, node_id: str, key: str) -> str | None:
        """Why this node is not who it says; None if it is."""
        digest = await self.digest(node_id)
        if digest is None:
            return not_joined(node_id)
        if hmac.compare_digest(digest_of(key), digest):
            return None
        return (
            f"the key of node {node_id} is not the one it was given last: another machine may have joined "
            "under this name; join again with a token from `tgpu nodes join-token`, or under another --name"
        )

    def digest(self, node_id: str) -> "asyncio.Future[str | None]":
        """Of the key that the node was given last; None if it has none. Raises StoreUnavailableError."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str | None] = loop.create_future()
        self._waiting.append((node_id, answer))
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

    async def _answer(self, asked: "Sequence[tuple[str, asyncio.Future[str | None]]]") -> None:
        try:
            digests = await self._keys.node_key_digests([node_id for node_id, _ in asked])
        except StoreUnavailableError as error:
            for _, answer in asked:
                if not answer.done():
                    answer.set_exception(StoreUnavailableError(str(error)))
            return
        for (_, answer), digest in zip(asked, digests, strict=True):
            if not answer.done():  # whoever asked may have gone
                answer.set_result(digest)
