"""A job that is done once more: by the terms that hold now, not by those that held when it was submitted."""

from dataclasses import replace

from tgpu.api.endpoint import Call
from tgpu.api.job_terms import terms_for
from tgpu.api.problems import unprocessable
from tgpu.api.terms import Effective
from tgpu.domain.job import Job, JobSpec
from tgpu.domain.timing import Timing


async def terms_now(call: Call, spec: JobSpec) -> Effective:
    """What holds in its tenant, to which the caller must be able to submit. Raises ProblemError."""
    user = spec.user
    if user != call.caller.user and await call.services.accounts.by_name(user) is None:
        raise unprocessable("user_id", f"user_id: there is no account {user!r} on this machine any more")
    _, terms = await terms_for(call, spec.tenant_id, call.caller.rights)
    return terms


def as_it_was(job: Job) -> JobSpec:
    """Without other jobs, moments and holds, which are of that time."""
    spec = job.spec
    again = (
        Timing(again_on_timeout=True) if spec.timing is not None and spec.timing.again_on_timeout else None
    )
    return replace(spec, needs=(), timing=again, again_of=job.job_id)
