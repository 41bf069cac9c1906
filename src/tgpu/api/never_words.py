"""Why a job can never run, in words for its tenant: nobody is told to ask for what its quota would refuse."""

from tgpu.api.ports import Live, NoLeaderError
from tgpu.domain.job import JobSpec, Request


async def for_tenant(live: Live, why_not: str, request: Request, spec: JobSpec) -> str:
    """`why_not`: as it was said of the request, whoever asks."""
    if not request.gpu_types_barred:
        return why_not
    together = 1 if spec.gang is None else sum(group.tasks for group in spec.groups)
    try:
        return await live.why_never(request, together, spec.tenant_id) or why_not
    except NoLeaderError:
        return why_not
