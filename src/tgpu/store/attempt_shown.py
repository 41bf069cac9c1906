"""Which attempt tells most of a task."""

from collections.abc import Sequence

from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import Cause


def shown(attempts: Sequence[Attempt]) -> Attempt | None:
    """The live one that its task goes on with, or the last."""
    for attempt in reversed(attempts):
        if attempt.state.is_live and attempt.stop_cause is not Cause.SUPERSEDED:
            return attempt
    return attempts[-1] if attempts else None
