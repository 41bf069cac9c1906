"""Whether a node shows the key that it was given when it joined last: the store knows its digest."""

import asyncio
import hmac
from collections.abc import Sequence
from typing import Protocol

from tgpu.domain.node_limits import Admission
from tgpu.protocol.node_keys import digest_of
from tgpu.wiring.batched_reads import BatchedReads


class Keys(Protocol):
    """What is asked of the store."""

    async def node_key_digests(self, node_ids: Sequence[str]) -> list[str | None]: ...

    async def admissions(self, node_ids: Sequence[str]) -> list[Admission | None]: ...


def not_joined(node_id: str) -> str:
    return (
        f"node {node_id} has not joined this cluster, or was removed from it: "
        "join with a token from `tgpu nodes join-token`"
    )


class KeyRing:
    """Asks every time: a node that was removed, or whose name another machine took, is not let in again."""

    def __init__(self, keys: Keys) -> None:
        self._digests = BatchedReads(keys.node_key_digests)
        self._admissions = BatchedReads(keys.admissions)

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
        return self._digests.of(node_id)

    async def admission(self, node_id: str) -> Admission:
        """Of a node whose key was right a moment ago; one that was removed since has none."""
        return await self._admissions.of(node_id) or Admission(approved=False)
