"""Asking for jobs to be cancelled: the wish is recorded here, the control loop carries it out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from litestar import Response
from msgspec import Meta

from tgpu.api.access import seen_by, sight_of
from tgpu.api.audit_note import note
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint, Param
from tgpu.api.job_view import JobOut, job_out
from tgpu.api.needs import CANCEL, CANCEL_JOB
from tgpu.api.permission import may_with
from tgpu.api.problems import ProblemError, unprocessable
from tgpu.api.reasons import how_it_ended
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import JOB_EXAMPLE, JOB_ID
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.job import Job
from tgpu.store.job_filter import JobFilter, Paging

_MOST = 10_000
_PAGE = 1000


class ToCancel(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The jobs to cancel."""

    job_ids: Annotated[
        list[int],
        Meta(
            extra_json_schema={"minItems": 1, "maxItems": _MOST, "items": {"type": "integer", "minimum": 1}}
        ),
    ]

    now: Annotated[bool, Meta(description="SIGKILL at once instead of SIGTERM and a grace.")] = False


class Cancelled(msgspec.Struct, kw_only=True):
    """What became of each id."""

    cancelling: list[int]
    already_ended: list[int]
    not_found: list[int]
    forbidden: list[int]


_to_cancel = msgspec.json.Decoder(ToCancel)


async def cancel_one(call: Call) -> Response[Any]:
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
    await _note(call, [job], now=now)
    after = before if before.cancel_by else replace(before, cancel_by=caller.user)
    sight = sight_of(job.spec.user, job.spec.tenant_id, caller, services.settings)
    return json_reply(job_out(after, sight), 202)


async def _note(call: Call, jobs: Sequence[Job], *, now: bool) -> None:
    """What one does with one's own jobs is told by their events."""
    how = {"now": True} if now else {}
    for user in sorted({job.spec.user for job in jobs} - {call.caller.user}):
        ids = sorted(job.job_id for job in jobs if job.spec.user == user)
        target = f"job/{ids[0]}" if len(ids) == 1 else f"jobs/{ids[0]}-{ids[-1]}"
        await note(call, "job.cancel", target, after={"user": user, "job_ids": ids, **how})


async def cancel_many(call: Call) -> Response[Any]:
    asked = decode(_to_cancel, await read_body(call, MIB))
    ids = list(dict.fromkeys(asked.job_ids))
    if not 0 < len(ids) <= _MOST:
        raise unprocessable("job_ids", f"job_ids must have 1 to {_MOST} ids; got {len(ids)}")
    if any(not 0 < job_id <= MAX_JOB_ID for job_id in ids):
        raise unprocessable("job_ids", "job_ids must be positive numbers, such as 42")
    caller, services = call.caller, call.services
    found = await _jobs(call, sorted(ids))
    mine = [job_id for job_id in ids if job_id in found and _may(found[job_id], call)]
    before: list[Job | None] = []
    if mine:
        at_ms = services.now_ms()
        before = await services.store.request_cancel(mine, caller.user, at_ms, now=asked.now)
    ended = {job.job_id for job in before if job is not None and job.status.is_final}
    await _note(call, [found[job_id] for job_id in mine if job_id not in ended], now=asked.now)
    allowed = set(mine)
    return json_reply(
        Cancelled(
            cancelling=[job_id for job_id in mine if job_id not in ended],
            already_ended=[job_id for job_id in mine if job_id in ended],
            not_found=[job_id for job_id in ids if job_id not in found],
            forbidden=[job_id for job_id in ids if job_id in found and job_id not in allowed],
        ),
        202,
    )


def _may(job: Job, call: Call) -> bool:
    return may_with(job, CANCEL_JOB, call.caller, call.services.settings)


async def _jobs(call: Call, ids: Sequence[int]) -> dict[int, Job]:
    found: dict[int, Job] = {}
    seen = await seen_by(call)
    for start in range(0, len(ids), _PAGE):
        ranges = tuple((job_id, job_id) for job_id in ids[start : start + _PAGE])
        jobs = await call.services.store.jobs(JobFilter(id_ranges=ranges, seen=seen), Paging(limit=_PAGE))
        found.update((job.job_id, job) for job in jobs)
    return found


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
