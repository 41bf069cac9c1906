"""Patience with an engine that fails: as it goes away it refuses what it would do at any other time."""

import asyncio

from tgpu.domain.lifecycle import Cause
from tgpu.runner.docker.engine import EngineRefusedError
from tgpu.runner.docker.keeper import Keeper

FAILING_S = 10.0
"""So long it is asked again."""
PAUSE_S = 1.0
NEAR_OUTAGE_S = 60.0
"""One that was away so lately is not taken at its word."""
_ITS_OWN_FAULT = 500


class Patience:
    """Of one who asks it for one thing."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._since: float | None = None

    async def lasts(self, error: EngineRefusedError) -> bool:
        """Whether to ask once more; then a moment has passed. What is wrong with the question stays wrong."""
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        if error.status < _ITS_OWN_FAULT or now - self._since >= FAILING_S:
            return False
        await asyncio.sleep(PAUSE_S)
        return True

    def begins_anew(self) -> None:
        """The engine went away: whatever it has said before counts for nothing."""
        self._since = None

    def cause(self, error: EngineRefusedError) -> Cause:
        """At its end: whose doing it is. An engine that fails steadily does so because of what it is told."""
        is_leaving = error.status >= _ITS_OWN_FAULT and self._keeper.was_lost_within(NEAR_OUTAGE_S)
        return Cause.NODE_LOST if is_leaving else Cause.COULD_NOT_START


def refused_words(error: EngineRefusedError) -> str:
    return f"the container engine refused: {error.said}"
