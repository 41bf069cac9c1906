"""Asking for jobs to be cancelled: the wish is recorded here, the control loop carries it out."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api.access import sight_of
from tgpu.api.bulk import JobsNamed, checked_ids, choose, note_bulk
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.job_view import JobOut, job_out
from tgpu.api.needs import CANCEL, CANCEL_JOB
from tgpu.api.problems import ProblemError
from tgpu.api.reasons import how_it_ended
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import JOB_EXAMPLE, JOB_ID
from tgpu.domain.job import Job


class ToCancel(JobsNamed, forbid_unknown_fields=True, kw_only=True):
    """The jobs to cancel."""

    now: Annotated[bool, Meta(description="SIGKILL at once instead of SIGTERM and a grace.")] = False


class Cancelled(msgspec.Struct, kw_only=True):
    """What became of each id."""

    cancelling: list[int]
    already_ended: list[int]
    not_found: list[int]
    forbidden: list[int]


_to_cancel = msgspec.json.Decoder(ToCancel)


async def cancel_one(call: Call) -> Response:
    job, caller, services = call.job, call.caller, call.services
    now, at_ms = call.query.flag("now"), services.now_ms()
    before = (await services.store.request_cancel([job.job_id], caller.user, at_ms, now=now))[0] or job
    if before.status.is_final:
        raise ProblemError(
            409,
            "already-ended",
            f"job {job.job_id} cannot be cancelled: {how_it_ended(before)}",
            extras={"job_status": before.status, "cause": before.cause},
        )
    await note_bulk(call, "job.cancel", [job], **({"now": True} if now else {}))
    after = before if before.cancel_by else replace(before, cancel_by=caller.user)
    sight = sight_of(job.spec.user, job.spec.tenant_id, caller, services.settings)
    return json_reply(job_out(after, sight), 202)


async def cancel_many(call: Call) -> Response:
    asked = decode(_to_cancel, await read_body(call, MIB))
    ids = checked_ids(asked.job_ids)
    caller, services = call.caller, call.services
    chosen = await choose(call, ids, CANCEL_JOB)
    mine = [job.job_id for job in chosen.allowed]
    before: list[Job | None] = []
    if mine:
        at_ms = services.now_ms()
        before = await services.store.request_cancel(mine, caller.user, at_ms, now=asked.now)
    ended = {job.job_id for job in before if job is not None and job.status.is_final}
    how = {"now": True} if asked.now else {}
    await note_bulk(call, "job.cancel", [job for job in chosen.allowed if job.job_id not in ended], **how)
    return json_reply(
        Cancelled(
            cancelling=[job_id for job_id in mine if job_id not in ended],
            already_ended=[job_id for job_id in mine if job_id in ended],
            not_found=chosen.not_found,
            forbidden=chosen.forbidden,
        ),
        202,
    )


_NOW = Param("now", "SIGKILL at once instead of SIGTERM and a grace.", {"type": "boolean"}, False)
_RECORDED = {**JOB_EXAMPLE, "cancel_requested_by": "alice"}


def _cancel(method: str, path: str) -> Endpoint:
    return Endpoint(
        method,
        path,
        cancel_one,
        CANCEL_JOB,
        "jobs",
        "Cancel a job",
        "Records the wish and answers at once; a running job gets SIGTERM, its grace, then SIGKILL; with "
        "now=true SIGKILL at once. Asking again changes nothing, but with now=true ends a grace. "
        "DELETE /jobs/{job_id} and POST /jobs/{job_id}/abort do the same.",
        {202: Answer("The job is being cancelled.", JobOut, _RECORDED)},
        errors=(404, 409),
        params=(JOB_ID, _NOW),
    )


ENDPOINTS = (
    _cancel("DELETE", "/jobs/{job_id}"),
    _cancel("POST", "/jobs/{job_id}/abort"),
    Endpoint(
        "POST",
        "/jobs/cancel",
        cancel_many,
        CANCEL,
        "jobs",
        "Cancel many jobs",
        "Cancels what may be cancelled and says what became of each id.",
        {
            202: Answer(
                "What became of each.",
                Cancelled,
                {"cancelling": [42], "already_ended": [7], "not_found": [], "forbidden": []},
            )
        },
        errors=(413, 422),
        body=Body((ToCancel,), {"two jobs": {"job_ids": [7, 42]}}),
    ),
)
