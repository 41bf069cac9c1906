"""Whether a node shows the key that it was given when it joined last: the store knows its digest."""

import asyncio
import hmac
from typing import Protocol

from tgpu.protocol.node_keys import digest_of

_AT_ONCE = 64


class Keys(Protocol):
    """What is asked of the store."""

    async def node_key_digest(self, node_id: str) -> str | None: ...


class KeyRing:
    """Asks every time: a node that was removed, or whose name went to another machine, is not let in again.
    That costs less than the handshake before it."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._asking = asyncio.Semaphore(_AT_ONCE)  # all nodes come at once after a change of leader

    async def refusal(self, node_id: str, key: str) -> str | None:
        """Why this node is not who it says; None if it is."""
        async with self._asking:
            digest = await self._keys.node_key_digest(node_id)
        if digest is None:
            return (
                f"node {node_id} has not joined this cluster, or was removed from it: "
                "join with a token from `tgpu nodes join-token`"
            )
        if hmac.compare_digest(digest_of(key), digest):
            return None
        return (
            f"the key of node {node_id} is not the one it was given last: another machine may have joined "
            "under this name; join again with a token from `tgpu nodes join-token`, or under another --name"
        )
