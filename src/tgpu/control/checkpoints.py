"""When tasks last saved their work: in the picture as soon as a node says so, in the store now and then."""

from dataclasses import replace

from tgpu.control.turn import Turn
from tgpu.core.picture import Picture, Placed
from tgpu.domain.job import Exit

WRITE_EVERY_MS = 30_000
"""Of one task, at most so often while it runs: a program may say it after every step."""


def heard(picture: Picture, placed: Placed, at_ms: int | None, turn: Turn) -> None:
    """What a node says while the task runs. Nodes' clocks may be ahead, and time does not go back."""
    if at_ms is None:
        return
    at_ms = min(at_ms, picture.now_ms)
    if at_ms <= (placed.task.checkpoint_ms or 0):
        return
    picture.saved(placed, at_ms)
    if picture.now_ms - placed.saved_wrote_ms >= WRITE_EVERY_MS:
        placed.saved_wrote_ms = picture.now_ms
        turn.batch.saved[placed.task.task_id] = at_ms


def at_end(picture: Picture, placed: Placed, how: Exit, turn: Turn) -> Exit:
    """What is known of it by now goes with the end of the attempt: by that it is told what was lost."""
    heard(picture, placed, how.checkpoint_ms, turn)
    saved_ms = placed.task.checkpoint_ms
    if saved_ms is None:
        return how if how.checkpoint_ms is None else replace(how, checkpoint_ms=None)
    turn.batch.saved[placed.task.task_id] = saved_ms
    return replace(how, checkpoint_ms=saved_ms)
