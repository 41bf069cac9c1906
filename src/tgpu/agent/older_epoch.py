"""Servers with an older epoch than this node has obeyed: what they are told, and how often that is logged."""

import asyncio

from tgpu.agent.channel import Channel
from tgpu.agent.identity import NodeIdentity
from tgpu.observe.logs import logger
from tgpu.protocol.messages import KnowsNewer

COMPLAIN_EVERY_S = 60.0


class OlderEpoch:
    def __init__(self, identity: NodeIdentity) -> None:
        self._identity = identity
        self._again = 0.0

    def disobey(self, epoch: int, newest: int, channel: Channel | None, patience_s: float) -> None:
        """The server is told why, and hangs up; until then, and between two calls, others are tried."""
        loop = asyncio.get_running_loop()
        self._complain(epoch, newest, loop.time())
        if channel is not None:
            identity = self._identity
            channel.send(KnowsNewer(node_id=identity.node_id, epoch=newest, key=identity.key))
            loop.call_later(patience_s, channel.close)

    def _complain(self, epoch: int, newest: int, now: float) -> None:
        if now < self._again:
            return
        self._again = now + COMPLAIN_EVERY_S
        logger("agent").warning(
            "this server's epoch is older than the newest that was obeyed: it was deposed, or its store"
            " was put back without `tgpu restore --database`",
            epoch=epoch,
            newest=newest,
        )
