"""Admission of a node that has proved its key: whether it may speak, and within which limits."""

import asyncio
from typing import Protocol

from msgspec.structs import replace

from tgpu.domain.node_limits import Admission, NodeLimits
from tgpu.protocol.messages import FromAgent, Heartbeat, Hello

LOOK_EVERY_S = 1.0
LOOKS = 3
"""How often a node that waits for approval is looked up before it is sent away, to come again shortly."""


class Admissions(Protocol):
    async def admission(self, node_id: str) -> Admission:
        """Raises StoreUnavailableError."""
        ...


async def approved_limits(admissions: Admissions, node_id: str) -> NodeLimits | None:
    """None if no administrator has approved the node yet. Raises StoreUnavailableError."""
    for look in range(LOOKS + 1):
        if look:
            await asyncio.sleep(LOOK_EVERY_S)
        admission = await admissions.admission(node_id)
        if admission.approved:
            return admission.limits
    return None


def waiting_words(node_id: str) -> str:
    return f"node {node_id} waits for approval by an administrator: `tgpu nodes approve {node_id}`"


def within(limits: NodeLimits, node_id: str, message: FromAgent) -> FromAgent:
    """The message as the node's join token allows it. Raises BeyondLimitsError if it claims more."""
    if isinstance(message, Hello):
        return replace(
            message,
            pool=message.pool if limits.pool is None else limits.pool,
            labels=limits.allowed_labels(node_id, message.labels),
            serves=limits.allowed_user(node_id, message.serves),
        )
    if isinstance(message, Heartbeat) and message.labels is not None:
        return replace(message, labels=limits.allowed_labels(node_id, message.labels))
    return message
