"""What becomes of the other tasks of a gang when one of them leaves its node.

A gang that is repaired goes on without it. Any other stops: with it, if it failed; or to start anew with it,
once all of them have left their nodes.
"""

from tgpu.control import wishes
from tgpu.control.turn import Turn
from tgpu.core.gang_book import GangState
from tgpu.core.picture import Picture, Placed
from tgpu.domain import exit_words
from tgpu.domain.job import Exit, JobSpec, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, Happening
from tgpu.store.port import StopOrdered, TaskClosed

_AGAIN = (Happening.REQUEUED, Happening.PREEMPTED, Happening.LOST)
CANNOT_START_ANEW = "its gang cannot start anew, for other tasks of it are over"


def may_return(spec: JobSpec, started_ms: int | None) -> bool:
    """Whether an attempt that was lost is of use when it returns: not if all the others start anew, nor one
    that was only prepared."""
    return spec.gang is None or (not spec.fail_together and started_ms is not None)


def can_start_anew(picture: Picture, task: TaskBrief) -> bool:
    """Not once another task of its gang is over: it would start without that."""
    if task.gang is None or task.gang.repairs:
        return True
    gang = picture.gangs.get(task.task_id.job_id)
    return gang is None or not gang.over


def left(picture: Picture, placed: Placed, happening: Happening, words: str, turn: Turn) -> None:
    """It is not placed any more; if it is not over, it waits."""
    task = placed.task
    if task.gang is None or task.gang.repairs:
        return
    gang = picture.gangs.get(task.task_id.job_id)  # None: all that are left are parked, or over
    who = f"rank {task.task_id.task_index} on {placed.node_id}"
    if happening in _AGAIN and gang is not None:
        stop(picture, gang, Cause.GANG_RESTARTED, f"{who} left first: {words}", turn)
    elif happening is Happening.FAILED:
        detail = f"{who} failed first: {words}"
        if gang is not None:
            stop(picture, gang, Cause.GANG_BROKEN, detail, turn)
        _close_waiting(picture, task, detail, turn)
    elif happening is Happening.SUCCEEDED:
        _close_waiting(picture, task, f"{who} has finished: {CANNOT_START_ANEW}", turn)


def stop(picture: Picture, gang: GangState, cause: Cause, detail: str, turn: Turn) -> None:
    for task_id in gang.running:
        placed = picture.placed[task_id]
        if placed.state is not AttemptState.STOPPING:
            placed.stop_detail = detail
            picture.stopping(placed, cause)
            turn.batch.stop_ordered.append(StopOrdered(placed.attempt_id, cause, detail))


def _close_waiting(picture: Picture, left: TaskBrief, detail: str, turn: Turn) -> None:
    """The others of its gang that wait, also those that are suspended."""
    gang = picture.gangs.get(left.task_id.job_id)
    others = [] if gang is None else [picture.waiting[task_id] for task_id in gang.waiting]
    for task in (*others, *picture.parked.of_job(left.task_id.job_id)):
        wishes.take_out(picture, task.task_id)
        words = exit_words.in_words(Exit(Cause.GANG_BROKEN, detail=detail), None, None)
        turn.batch.closed.append(TaskClosed(task.task_id, Happening.FAILED, Cause.GANG_BROKEN, words))
        since_s = max(0, picture.now_ms - task.submitted_ms) / 1000
        turn.completions.append((Happening.FAILED, since_s))
