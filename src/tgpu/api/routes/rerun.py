"""POST /jobs/{job_id}/rerun: the same job once more."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta
from starlette.responses import Response

from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edit_form import EditAsked
from tgpu.api.edit_rules import edited
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.job_rules import Defaults
from tgpu.api.job_terms import check_priority, under_terms
from tgpu.api.job_view import JobOut
from tgpu.api.needs import RERUN_JOB
from tgpu.api.needs_again import needs_said
from tgpu.api.once_more import as_it_was, terms_now
from tgpu.api.routes.params import JOB_EXAMPLE, JOB_ID
from tgpu.api.routes.submit import Submitter
from tgpu.api.services import Services
from tgpu.api.timing_rules import check_in_time


class RerunAsked(EditAsked, forbid_unknown_fields=True, kw_only=True):
    """What is left out is as it was, but for other jobs, for which it does not wait."""

    after: Annotated[
        list[str] | None,
        Meta(description="What it waits for, as in POST /jobs.", extra_json_schema={"examples": [None]}),
    ] = None


_asked = msgspec.json.Decoder(RerunAsked)


class Rerunner:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._submitter = Submitter(services)
        self._defaults = Defaults.of(services.settings)

    async def rerun(self, call: Call) -> Response:
        """With the code, the image and all else that it was given then; not with what it waited for."""
        job, raw = call.job, await read_body(call, MIB)
        asked = decode(_asked, raw) if raw.strip() else RerunAsked()
        said = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
        needs = needs_said(said.pop("after") or ())
        terms = await terms_now(call, job.spec)
        spec = replace(as_it_was(job), needs=needs)
        if said:
            spec = edited(spec, said, self._defaults)
        check_priority(call, spec)
        spec = under_terms(call.caller, spec, terms)
        check_in_time(spec, self._services.now_ms())
        return await self._submitter.again(call, spec, raw + f" {job.job_id}".encode())


def endpoints(services: Services) -> tuple[Endpoint, ...]:
    return (
        Endpoint(
            "POST",
            "/jobs/{job_id}/rerun",
            Rerunner(services).rerun,
            RERUN_JOB,
            "jobs",
            "Run a job once more",
            "A new job of the same user, exactly as the other was submitted: the same command and "
            "environment, the same snapshot, the same digest of its image; but for what the body says, as "
            "PATCH /jobs/{job_id} takes it, or of what it waits for. Else it waits for no other job; it is "
            "not held.",
            {201: Answer("The new job.", JobOut, JOB_EXAMPLE, headers={"Location": "/jobs/43"})},
            errors=(404, 409, 413, 422),
            params=(JOB_ID,),
            adds_data=True,
            body=Body(
                (RerunAsked,),
                {"as it was": {}, "for longer": {"time_limit_s": 7200}, "after another": {"after": ["57"]}},
                required=False,
            ),
        ),
    )
