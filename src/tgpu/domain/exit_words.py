"""How an attempt ended, in words for people: one wording for one fact, whoever tells it."""

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.quantities import time_in_words

ON_BURST = "it ran on the burst"
"""What the node of a task is told that gives way for that, and not for its class."""
_PLAIN = {
    Cause.PREEMPTED: "gave way to a task of a higher class",
    Cause.COULD_NOT_START: "could not be started",
    Cause.REBOOTED: "its machine restarted",
    Cause.NODE_LOST: "its node lost it",
    Cause.DEVICE_LOST: "its GPU failed",
    Cause.MEMORY_PRESSURE: "gave way because its node ran short of memory",
    Cause.DISK_PRESSURE: "was ended because its node ran short of disk space",
    Cause.DISK_LIMIT: "used more disk space than it may",
    Cause.SUPERSEDED: "another attempt of its task goes on",
    Cause.SUSPENDED: "its job was suspended",
    Cause.RESTARTED: "was asked to start anew",
    Cause.JOB_FAILED: "was stopped with its job",
    Cause.JOB_DONE: "the work was done",
    Cause.GANG_BROKEN: "was stopped with its gang",
    Cause.GANG_RESTARTED: "its gang starts anew",
    Cause.DEADLINE: "was not over by its deadline",
    Cause.DEPENDENCY_FAILED: "a job that it waited for did not end as it had to",
    Cause.SUPERVISOR_LOST: "its supervisor was killed, so how it ended is not known",
}


def in_words(ended: Exit, by: str | None, time_limit_s: int | None, *, burst: bool = False) -> str:
    """`by`: who asked for it to be cancelled, if somebody did. `burst`: it ran beyond its tenant's quota.
    With what the supervisor had to add."""
    words, detail = _cause(ended, by, time_limit_s), ended.detail
    if ended.cause is Cause.PREEMPTED and (burst or detail.startswith(ON_BURST)):
        words, detail = f"gave way: {ON_BURST}", detail.removeprefix(ON_BURST).removeprefix("; ")
    if ended.cause is Cause.TIME_LIMIT:  # the supervisor's first words would only say it again
        detail = detail.partition("; ")[2]
    return f"{words}: {detail}" if detail else words


def _cause(ended: Exit, by: str | None, time_limit_s: int | None) -> str:
    match ended.cause:
        case Cause.EXITED:
            return "exited" if ended.exit_code is None else f"exit code {ended.exit_code}"
        case Cause.SIGNALLED:
            return "killed by a signal" if ended.signal is None else f"killed by signal {ended.signal}"
        case Cause.TIME_LIMIT:
            of = "" if time_limit_s is None else f" of {time_in_words(time_limit_s)}"
            return f"ran into its time limit{of}"
        case Cause.CANCELLED:
            return f"cancelled by {by}" if by else "cancelled"
        case cause:
            return _PLAIN.get(cause, str(cause).replace("-", " "))
