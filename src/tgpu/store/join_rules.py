"""When a join token is good, and what is said when it is not."""

from tgpu.store.cluster_port import (
    JoinToken,
    JoinTokenExpiredError,
    JoinTokenUsedError,
    UnknownJoinTokenError,
)
from tgpu.store.refusals import StoreError

_REMEDY = "ask an administrator of the cluster for a new one"


def refusal(token: JoinToken | None, at_ms: int) -> StoreError | None:
    """None if a node may join by this token now."""
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
    return None
