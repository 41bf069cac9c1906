"""What an attempt's end means for its task."""

from tgpu.domain import exit_words
from tgpu.domain.job import Exit, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening


def happening(how: Exit, task: TaskBrief) -> Happening:
    """What was not its own doing is tried again if the job allows it; a wish to cancel comes first."""
    if how.cause is Cause.EXITED and how.exit_code == 0:
        return Happening.SUCCEEDED
    if how.cause is Cause.CANCELLED:
        return Happening.CANCELLED
    if not _may_be_tried_again(how):
        return Happening.FAILED
    if task.cancel_by is not None:
        return Happening.CANCELLED
    if not task.requeue:
        return Happening.FAILED
    return Happening.PREEMPTED if how.cause is Cause.PREEMPTED else Happening.REQUEUED


def _may_be_tried_again(how: Exit) -> bool:
    return how.cause.is_infrastructure or how.cause is Cause.PREEMPTED


def in_words(how: Exit, task: TaskBrief) -> str:
    """One sentence for people; of a task that did what it should, only what the supervisor had to add."""
    if how.cause is Cause.EXITED and how.exit_code == 0:
        return how.detail
    words = exit_words.in_words(how, task.cancel_by, task.time_limit_s, burst=task.burst)
    if _may_be_tried_again(how) and happening(how, task) is Happening.FAILED:
        return f"{words}; --no-requeue forbids to try again"
    return words
