"""What an attempt's end means for its task."""

from tgpu.domain.job import Exit, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening


def happening(how: Exit, task: TaskBrief) -> Happening:
    """Infrastructure's failures are tried again if the job allows it; a wish to cancel comes first."""
    if how.cause is Cause.EXITED and how.exit_code == 0:
        return Happening.SUCCEEDED
    if how.cause is Cause.CANCELLED:
        return Happening.CANCELLED
    if how.cause is Cause.PREEMPTED:
        return Happening.CANCELLED if task.cancel_by is not None else Happening.PREEMPTED
    if how.cause.is_infrastructure:
        if task.cancel_by is not None:
            return Happening.CANCELLED
        return Happening.REQUEUED if task.requeue else Happening.FAILED
    return Happening.FAILED


def in_words(how: Exit, task: TaskBrief) -> str:
    """One sentence for people, from what the supervisor recorded."""
    text = _cause_in_words(how, task)
    if how.detail and how.cause is not Cause.TIME_LIMIT:  # the supervisor's words would only say it again
        return f"{text}: {how.detail}" if text else how.detail
    return text


_PLAIN = {
    Cause.PREEMPTED: "gave way to a task of a higher class",
    Cause.COULD_NOT_START: "could not be started",
    Cause.REBOOTED: "its machine restarted",
    Cause.NODE_LOST: "its node lost it",
    Cause.SUPERVISOR_LOST: "its supervisor was killed, so how it ended is not known",
}


def _cause_in_words(how: Exit, task: TaskBrief) -> str:
    match how.cause:
        case Cause.EXITED:
            return "" if how.exit_code == 0 else f"exit code {how.exit_code}"
        case Cause.SIGNALLED:
            return f"killed by signal {how.signal}"
        case Cause.TIME_LIMIT:
            return f"ran into its time limit of {task.time_limit_s} s"
        case Cause.CANCELLED:
            return f"cancelled by {task.cancel_by}" if task.cancel_by else "cancelled"
        case _:
            return _PLAIN.get(how.cause) or str(how.cause).replace("-", " ")
