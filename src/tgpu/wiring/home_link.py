"""The server's end of the stream of the agent in its own home, when other servers share the store.

The socket says who it is: only the server's own user and root can open it. So the key that it shows is kept
for it, and by that key the other servers know it when this one does not lead.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from tgpu.control.hub import Hub
from tgpu.domain.node_limits import Admission
from tgpu.observe.logs import logger
from tgpu.protocol.node_keys import digest_of
from tgpu.wiring.agent_link import is_of_this_home
from tgpu.wiring.crowd import Crowd
from tgpu.wiring.keyed_link import KeyedAgentLink

_log = logger("link")


class KeptKeys(Protocol):
    """What is asked of the store."""

    async def keep_key(self, node_id: str, key_digest: str, at_ms: int) -> bool: ...


class HomeRing:
    """Vouches for the agent of the home, unless its name is somebody else's."""

    def __init__(self, keys: KeptKeys, now_ms: Callable[[], int]) -> None:
        self._keys, self._now_ms = keys, now_ms

    async def refusal(self, node_id: str, key: str) -> str | None:
        if await self._keys.keep_key(node_id, digest_of(key), self._now_ms()):
            return None
        return (
            f"another machine of this cluster is called {node_id}: give this one another --name; if it is "
            f"this one, with a new home, make the name free with `tgpu nodes remove {node_id}`"
        )

    async def admission(self, node_id: str) -> Admission:  # noqa: ARG002  as KeyRing
        """The socket vouches for it: no token limits it."""
        return Admission()


class HomeLink(KeyedAgentLink):
    def __init__(self, hub: Hub, ring: HomeRing, crowd: Crowd, now_ms: Callable[[], int]) -> None:
        super().__init__(hub, ring, crowd, now_ms)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if is_of_this_home(transport):
            super().connection_made(transport)
        else:
            transport.close()
