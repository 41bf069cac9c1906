"""Why a job stands where it stands, in words for people."""

from tgpu.domain.exit_words import in_words
from tgpu.domain.job import Exit, Job
from tgpu.domain.lifecycle import Status


def reason_of(job: Job) -> str | None:
    """In the words of whoever decided, if they left any."""
    if job.cause is None:
        if job.cancel_by is not None and not job.status.is_final:
            return f"{job.cancel_by} asked to cancel it; it is being stopped"
        if waits := _what_holds_it_back(job):
            return waits
        if job.held:
            tenant_id = job.spec.tenant_id
            return f"it is held until the quota of {tenant_id} admits it; `tgpu why {job.job_id}` says more"
        return None
    if job.detail:
        return job.detail
    return in_words(Exit(job.cause, exit_code=job.exit_code), job.cancel_by, job.spec.time_limit_s)


def _what_holds_it_back(job: Job) -> str | None:
    timing = job.timing
    if timing is None or not job.status.waits:
        return None
    if timing.held_by is not None:
        return f"it is held by {timing.held_by}; `tgpu release {job.job_id}` lets it start"
    if timing.suspended_by is not None:
        return f"it is suspended by {timing.suspended_by}; `tgpu resume {job.job_id}` lets it go on"
    if timing.unmet:
        return f"it waits for other jobs; `tgpu why {job.job_id}` says which"
    return None


def how_it_ended(job: Job) -> str:
    """For whoever wants to change a job that has ended; says nothing that others must not know."""
    if job.status is Status.COMPLETED:
        return "it has completed"
    if job.status is Status.CANCELLED:
        return "it was cancelled"
    return f"it has failed ({job.cause})" if job.cause else "it has failed"
