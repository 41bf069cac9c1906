"""How an attempt came to hold nothing any more, as accounting sees it."""

from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.usage import Usage
from tgpu.store.lost import AttemptGone, AttemptLost
from tgpu.store.port import AttemptEnded

Left = AttemptEnded | AttemptLost | AttemptGone


def was_thrown_away(change: Left) -> bool:
    """Its work is of no use to its task: that begins anew, or another attempt's counts, or its node is
    lost."""
    if not isinstance(change, AttemptEnded):
        return True
    put_back = change.happening in (Happening.REQUEUED, Happening.PREEMPTED)
    return put_back or change.exit.cause.is_infrastructure


def thrown_away_ms(change: Left, spent: Usage) -> int:
    """Of its running time, what was thrown away: what came after its work was last saved."""
    if not was_thrown_away(change):
        return 0
    saved_ms = min(max(change.exit.checkpoint_ms or 0, spent.started_ms), spent.ended_ms)
    return spent.ended_ms - saved_ms


def tells_less(change: Left) -> bool:
    """Than what was written when it was lost: nobody has seen its end."""
    return change.exit.cause is Cause.NODE_LOST or not change.exit.ended_ms
