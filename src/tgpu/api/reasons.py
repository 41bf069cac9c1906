"""Why a job stands where it stands, in words for people; the same as the control loop's for the same fact."""

from tgpu.domain.job import Exit, Job
from tgpu.domain.lifecycle import Cause, Status

_PLAIN = {
    Cause.PREEMPTED: "gave way to a task of a higher class",
    Cause.COULD_NOT_START: "could not be started",
    Cause.REBOOTED: "its machine restarted",
    Cause.NODE_LOST: "its node lost it",
    Cause.SUPERVISOR_LOST: "its supervisor was killed, so how it ended is not known",
}


def reason_of(job: Job) -> str | None:
    """In the words of whoever decided, if they left any."""
    if job.cause is None:
        if job.cancel_by is not None and not job.status.is_final:
            return f"{job.cancel_by} asked to cancel it; it is being stopped"
        return None
    if job.detail:
        return job.detail
    return reason_of_exit(Exit(job.cause, exit_code=job.exit_code), job.cancel_by, job.spec.time_limit_s)


def reason_of_exit(ended: Exit, stop_by: str | None, time_limit_s: int | None) -> str:
    words = _words(ended, stop_by, time_limit_s)
    if ended.detail and ended.cause is not Cause.TIME_LIMIT:  # the supervisor's words would only say it again
        return f"{words}: {ended.detail}"
    return words


def how_it_ended(job: Job) -> str:
    """For whoever wants to change a job that has ended; says nothing that others must not know."""
    if job.status is Status.COMPLETED:
        return "it has completed"
    if job.status is Status.CANCELLED:
        return "it was cancelled"
    return f"it has failed ({job.cause})" if job.cause else "it has failed"


def _words(ended: Exit, by: str | None, time_limit_s: int | None) -> str:
    match ended.cause:
        case Cause.EXITED:
            return "exited" if ended.exit_code is None else f"exit code {ended.exit_code}"
        case Cause.SIGNALLED:
            return "killed by a signal" if ended.signal is None else f"killed by signal {ended.signal}"
        case Cause.TIME_LIMIT:
            return "ran into its time limit" + ("" if time_limit_s is None else f" of {time_limit_s} s")
        case Cause.CANCELLED:
            return f"cancelled by {by}" if by else "cancelled"
        case cause:
            return _PLAIN.get(cause, str(cause).replace("-", " "))
