"""When a join token is good, and what is said when it is not."""

from tgpu.domain.node_limits import is_within
from tgpu.store.cluster_port import (
    JoinToken,
    JoinTokenExpiredError,
    JoinTokenLimitError,
    JoinTokenUsedError,
    UnknownJoinTokenError,
)
from tgpu.store.refusals import StoreError

_REMEDY = "ask an administrator of the cluster for a new one"


def refusal(token: JoinToken | None, at_ms: int, node_id: str, address: str) -> StoreError | None:
    """None if this node may join by this token now, from this address."""
    if token is None:
        return UnknownJoinTokenError(
            f"this cluster has no such join token: check that it was copied whole, or {_REMEDY}"
        )
    if token.revoked:
        return UnknownJoinTokenError(f"this join token was revoked: {_REMEDY}")
    if token.expires_ms is not None and token.expires_ms <= at_ms:
        return JoinTokenExpiredError(f"this join token has expired: {_REMEDY}")
    if token.uses_left == 0:
        return JoinTokenUsedError(f"this join token was used as often as it may be: {_REMEDY}")
    return _limited(token, node_id, address)


def _limited(token: JoinToken, node_id: str, address: str) -> JoinTokenLimitError | None:
    if token.node_name not in (None, node_id):
        return JoinTokenLimitError(
            f"this join token is for node {token.node_name}: start the agent with --name {token.node_name}, "
            f"or {_REMEDY}"
        )
    if token.address is not None and not is_within(address, token.address):
        return JoinTokenLimitError(
            f"this join token is for machines in {token.address}, and this one connects from "
            f"{address or 'a socket'}: {_REMEDY}"
        )
    return None
