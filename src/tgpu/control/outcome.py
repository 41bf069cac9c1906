"""What an attempt's end means for its task."""

from tgpu.domain.job import Exit, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening


def happening(how: Exit, task: TaskBrief) -> Happening:
    """Infrastructure's failures are tried again if the job allows it; a wish to cancel comes first."""
    if how.cause is Cause.EXITED and how.exit_code == 0:
        return Happening.SUCCEEDED
    if how.cause is Cause.CANCELLED:
        return Happening.CANCELLED
    if how.cause.is_infrastructure:
        if task.cancel_by is not None:
            return Happening.CANCELLED
        return Happening.REQUEUED if task.requeue else Happening.FAILED
    return Happening.FAILED


def in_words(how: Exit, task: TaskBrief) -> str:
    """One sentence for people, from what the supervisor recorded."""
    match how.cause:
        case Cause.EXITED:
            text = "" if how.exit_code == 0 else f"exit code {how.exit_code}"
        case Cause.SIGNALLED:
            text = f"killed by signal {how.signal}"
        case Cause.TIME_LIMIT:
            text = f"ran into its time limit of {task.time_limit_s} s"
        case Cause.CANCELLED:
            text = f"cancelled by {task.cancel_by}" if task.cancel_by else "cancelled"
        case Cause.COULD_NOT_START:
            text = "could not be started"
        case Cause.REBOOTED:
            text = "its machine restarted"
        case Cause.NODE_LOST:
            text = "its node lost it"
        case Cause.SUPERVISOR_LOST:
            text = "its supervisor was killed, so how it ended is not known"
        case _:
            text = str(how.cause).replace("-", " ")
    if how.detail and how.cause is not Cause.TIME_LIMIT:  # the supervisor's words would only say it again
        return f"{text}: {how.detail}" if text else how.detail
    return text
