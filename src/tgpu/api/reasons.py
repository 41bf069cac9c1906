"""Why a job stands where it stands, as a sentence for people."""

import signal

from tgpu.domain.job import Exit, Job
from tgpu.domain.lifecycle import Cause, Status

_PLAIN = {
    Cause.OUT_OF_MEMORY: "it used more memory than it may and was stopped",
    Cause.TIME_LIMIT: "it reached its time limit and was stopped",
    Cause.NODE_LOST: "its node was lost",
    Cause.REBOOTED: "its node was restarted",
    Cause.SUPERVISOR_LOST: "its supervisor died, so that its end was not seen",
    Cause.COULD_NOT_START: "it could not be started",
    Cause.WAITED_TOO_LONG: "it waited longer than its max_wait_s",
    Cause.PREEMPTED: "it gave way to a job of a higher class",
}


def reason_of(job: Job) -> str | None:
    """In the words of whoever decided, if they left any."""
    if job.cause is None:
        if job.cancel_by is not None and not job.status.is_final:
            return f"{job.cancel_by} asked to cancel it; it is being stopped"
        return None
    return job.detail or _sentence(job.cause, job.exit_code, None, job.cancel_by)


def reason_of_exit(ended: Exit, stop_by: str | None) -> str:
    sentence = _sentence(ended.cause, ended.exit_code, ended.signal, stop_by)
    return f"{sentence}: {ended.detail}" if ended.detail else sentence


def how_it_ended(job: Job) -> str:
    """For whoever wants to change a job that has ended; says nothing that others must not know."""
    if job.status is Status.COMPLETED:
        return "it has completed"
    if job.status is Status.CANCELLED:
        return "it was cancelled"
    return f"it has failed ({job.cause})" if job.cause else "it has failed"


def _sentence(cause: Cause, exit_code: int | None, signal_number: int | None, by: str | None) -> str:
    if cause is Cause.EXITED:
        return "its program exited" if exit_code is None else f"its program exited with code {exit_code}"
    if cause is Cause.SIGNALLED:
        return f"its program was ended by {_signal_name(signal_number)}"
    if cause is Cause.CANCELLED:
        return f"{by} cancelled it" if by else "it was cancelled"
    return _PLAIN[cause]


def _signal_name(number: int | None) -> str:
    if number is None:
        return "a signal"
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
