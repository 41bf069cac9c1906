"""Servers with an older epoch than this node has obeyed: what they are told, and how often that is logged."""

from tgpu.agent.identity import NodeIdentity
from tgpu.observe.logs import logger
from tgpu.protocol.messages import KnowsNewer

COMPLAIN_EVERY_S = 60.0


class OlderEpoch:
    def __init__(self, identity: NodeIdentity) -> None:
        self._identity = identity
        self._again = 0.0

    def met(self, epoch: int, newest: int, now: float) -> None:
        if now < self._again:
            return
        self._again = now + COMPLAIN_EVERY_S
        logger("agent").warning(
            "this server's epoch is older than the newest that was obeyed: it was deposed, or its store"
            " was put back without `tgpu restore --database`",
            epoch=epoch,
            newest=newest,
        )

    def answer(self, newest: int) -> KnowsNewer:
        return KnowsNewer(node_id=self._identity.node_id, epoch=newest, key=self._identity.key)
