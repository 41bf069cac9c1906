"""What can be done with some tasks of a job: cancel them, start them anew; and suspend and resume a job."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from tgpu.api import chosen_tasks as chosen
from tgpu.api.access import sight_of
from tgpu.api.audit_note import note
from tgpu.api.bulk import MOST_RETRIED, FewJobsNamed, RefusedJob, choose, read_ids
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.job_terms import under_terms
from tgpu.api.job_view import JobOut, job_out
from tgpu.api.needs import CANCEL_JOB, CHANGE_JOB, SUBMIT
from tgpu.api.needs_again import needs_again, needs_said
from tgpu.api.once_more import as_it_was, terms_now
from tgpu.api.permission import check_undoing
from tgpu.api.problems import ProblemError, as_problem, forbidden, unprocessable
from tgpu.api.reasons import how_it_ended
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import JOB_EXAMPLE, JOB_ID
from tgpu.api.routes.submit import Submitter, own_token
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Job, JobSpec
from tgpu.store.refusals import StoreError


class Some(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which tasks are meant."""

    indices: Annotated[
        str | None, Meta(description="By index; by default all.", extra_json_schema={"examples": ["3-9"]})
    ] = None
    now: Annotated[bool, Meta(description="SIGKILL at once instead of SIGTERM and a grace.")] = False


class Retried(msgspec.Struct, kw_only=True):
    """What starts anew."""

    restarted: list[int]
    """Indices that ran and are stopped, to start anew in this job."""
    job_id: int | None
    """A new job, of those that had failed or been cancelled; null: there were none."""
    indices: str | None
    """The indices of the new job."""


class Again(Some, forbid_unknown_fields=True, kw_only=True):
    """Which tasks are to be tried again, and what they wait for."""

    after: Annotated[
        list[str] | None,
        Meta(
            description="What the new job waits for, as in POST /jobs; `[]`: nothing. By default what the "
            "other one waited for, or what took the place of that.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None


class RetriedJob(msgspec.Struct, kw_only=True):
    """A job that is retried."""

    job_id: int
    new_job_id: int | None
    """The new job that replaces it; null: it is restarted itself."""
    restarted: bool


class RetriedJobs(msgspec.Struct, kw_only=True):
    """What became of each id."""

    retried: list[RetriedJob]
    refused: list[RefusedJob]
    not_found: list[int]
    forbidden: list[int]


_AT_ONCE = 16
"""Retries that are submitted together: they share a transaction."""
_some = msgspec.json.Decoder(Some)
_again_asked = msgspec.json.Decoder(Again)


async def cancel_some(call: Call) -> Response:
    job, caller, services = call.job, call.caller, call.services
    asked = decode(_some, await read_body(call, MIB) or b"{}")
    positions, store, at_ms = chosen.positions(job, asked.indices), services.store, services.now_ms()
    if positions is None:
        before = (await store.request_cancel([job.job_id], caller.user, at_ms, now=asked.now))[0]
    else:
        before = await store.cancel_tasks(job.job_id, positions, caller.user, at_ms, now=asked.now)
    before = before or job
    if before.status.is_final:
        raise ProblemError(
            409,
            "already-ended",
            f"job {job.job_id} cannot be cancelled: {how_it_ended(before)}",
            extras={"job_status": before.status, "cause": before.cause},
        )
    some = {"indices": asked.indices} if asked.indices else {}
    await _note(call, "job.cancel", {**some, **({"now": True} if asked.now else {})})
    return await _reply(call, 202)


async def retry(call: Call) -> Response:
    """What runs starts anew in its place. What is over stays as it was, and is done again by a new job."""
    asked = decode(_again_asked, await read_body(call, MIB) or b"{}")
    return json_reply(await _retried_and_noted(call, asked), 202)


async def _retried_and_noted(call: Call, asked: Again) -> Retried:
    """Noted at once: if this server ends during a bulk, the audit log has what was done until then. Raises
    ProblemError and StoreError."""
    retried = await _retried(call, asked)
    shown = {"restarted": retried.restarted} if retried.restarted else {}
    await _note(call, "job.retry", {"job_id": retried.job_id, **shown})
    return retried


async def retry_many(call: Call) -> Response:
    """Each by itself: one that is refused concerns no other."""
    chosen = await choose(call, await read_ids(call, MOST_RETRIED), CHANGE_JOB)
    done: list[RetriedJob | RefusedJob] = []
    for start in range(0, len(chosen.allowed), _AT_ONCE):
        some = chosen.allowed[start : start + _AT_ONCE]
        together = (_retried_or_refused(replace(call, found=job)) for job in some)
        # All of them are awaited, also after a failure: each retry is noted in the audit log.
        ended = await asyncio.gather(*together, return_exceptions=True)
        for each in ended:
            if isinstance(each, BaseException):
                raise each
            done.append(each)
    return json_reply(
        RetriedJobs(
            retried=[each for each in done if isinstance(each, RetriedJob)],
            refused=[each for each in done if isinstance(each, RefusedJob)],
            not_found=chosen.not_found,
            forbidden=chosen.forbidden,
        ),
        202,
    )


async def _retried_or_refused(call: Call) -> RetriedJob | RefusedJob:
    job_id = call.job.job_id
    try:
        retried = await _retried_and_noted(call, Again())
    except (ProblemError, StoreError) as error:
        return RefusedJob(job_id=job_id, detail=as_problem(error, "POST").detail)
    return RetriedJob(job_id=job_id, new_job_id=retried.job_id, restarted=bool(retried.restarted))


async def _retried(call: Call, asked: Again) -> Retried:
    """Raises ProblemError and StoreError."""
    job, caller, services = call.job, call.caller, call.services
    if job.spec.gang is not None and asked.indices is not None:
        raise unprocessable("indices", f"job {job.job_id} is a gang, which starts whole: leave them out")
    wanted = chosen.positions(job, asked.indices)
    running, over = await chosen.standing(call, job, wanted, named=asked.indices is not None)
    if job.spec.gang is not None and running and len(running) < job.spec.task_count:
        raise ProblemError(
            409,
            "nothing-to-retry",
            f"job {job.job_id} is a gang, which starts whole, and not all of it runs: submit it again",
        )
    if running:
        _check_hours(call, "starts nothing anew that runs")
    new_id, indices = None, None
    if over:  # first, for it may be refused: then nothing is done
        spec = under_terms(caller, _again(job, over), await terms_now(call, job.spec))
        needs = await needs_again(call, job, over) if asked.after is None else needs_said(asked.after)
        spec = replace(spec, needs=needs)
        await Submitter(services).check_again(call, spec)
        submitted = await services.store.submit([spec], services.now_ms(), None, own_token(call))
        new_id, indices = submitted.job_ids[0], _written(job.spec, over)
    restarted = (
        await services.store.restart_tasks(job.job_id, running, caller.user, services.now_ms())
        if running
        else []
    )
    if not restarted and new_id is None:
        raise ProblemError(
            409,
            "nothing-to-retry",
            f"job {job.job_id} has no such task that runs, has failed or was cancelled",
        )
    shown = [job.spec.index_at(position) for position in restarted]
    return Retried(restarted=shown, job_id=new_id, indices=indices)


async def suspend(call: Call) -> Response:
    _check_hours(call, "suspends nothing")
    before = await call.services.store.suspend(call.job.job_id, call.caller.user, call.services.now_ms())
    if before is not None and before.status.is_final:
        raise ProblemError(
            409, "already-ended", f"job {before.job_id} cannot be suspended: {how_it_ended(before)}"
        )
    await _note(call, "job.suspend", {})
    return await _reply(call)


async def resume(call: Call) -> Response:
    timing = call.job.timing
    check_undoing(call, None if timing is None else timing.suspended_by, "suspended", "resume")
    before = await call.services.store.resume(call.job.job_id, call.caller.user, call.services.now_ms())
    if before is None or before.timing is None or before.timing.suspended_by is None:
        raise ProblemError(
            409,
            "not-suspended",
            f"job {call.job.job_id} is not suspended; `tgpu why {call.job.job_id}` says more",
        )
    await _note(call, "job.resume", {})
    return await _reply(call)


def _check_hours(call: Call, deed: str) -> None:
    """Of a token's GPU-hours a job takes those of its last try; what is stopped and begins again would be
    free. Raises ProblemError."""
    token = call.caller.token
    if token is not None and token.gpu_ms_left is not None:
        raise forbidden(
            f"this token is good for a number of GPU-hours only, so it {deed}: cancel and submit instead, or "
            "use the socket"
        )


def _again(job: Job, positions: list[int]) -> JobSpec:
    spec = as_it_was(job)
    if spec.series is None:
        return spec
    series = spec.series.only(IndexSet.of(spec.index_at(position) for position in positions))
    return replace(spec, groups=(replace(spec.groups[0], tasks=series.indices.count),), series=series)


def _written(spec: JobSpec, positions: list[int]) -> str | None:
    if spec.series is None:
        return None
    return IndexSet.of(spec.index_at(position) for position in positions).text


async def _reply(call: Call, status: int = 200) -> Response:
    job = await call.services.store.job(call.job.job_id) or call.job
    sight = sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)
    return json_reply(job_out(job, sight), status)


async def _note(call: Call, action: str, after: dict[str, Any]) -> None:
    """What one does with one's own jobs is told by their events."""
    owner = call.job.spec.user
    if owner != call.caller.user:
        await note(call, action, f"job/{call.job.job_id}", after={"user": owner, **after})


_SOME = Body((Some,), {"some tasks": {"indices": "3-9"}}, required=False)
ENDPOINTS = (
    Endpoint(
        "POST",
        "/jobs/{job_id}/cancel",
        cancel_some,
        CANCEL_JOB,
        "jobs",
        "Cancel some tasks of a job",
        "By their indices, also those that have not begun to wait yet; without `indices` the whole job.",
        {202: Answer("They are being cancelled.", JobOut, JOB_EXAMPLE)},
        errors=(404, 409, 413, 422),
        params=(JOB_ID,),
        body=_SOME,
    ),
    Endpoint(
        "POST",
        "/jobs/{job_id}/retry",
        retry,
        CHANGE_JOB,
        "jobs",
        "Try tasks of a job again",
        "What runs and is named is stopped and starts anew. What failed or was cancelled becomes a new job "
        "of the same description, and what completed too if it is named. That one waits for what the other "
        "waited for, or for what did that again since; one that could never start is refused.",
        {202: Answer("What starts anew.", Retried, {"restarted": [], "job_id": 57, "indices": "3,9"})},
        errors=(404, 409, 413, 422),
        params=(JOB_ID,),
        adds_data=True,
        body=Body(
            (Again,),
            {"some tasks": {"indices": "3-9"}, "after another": {"after": ["57"]}},
            required=False,
        ),
    ),
    Endpoint(
        "POST",
        "/jobs/retry",
        retry_many,
        SUBMIT,
        "jobs",
        "Retry many jobs",
        "Retries each job as POST /jobs/{job_id}/retry does and reports the outcome for each id.",
        {
            202: Answer(
                "What became of each.",
                RetriedJobs,
                {
                    "retried": [{"job_id": 42, "new_job_id": 57, "restarted": False}],
                    "refused": [{"job_id": 7, "detail": "job 7 has no such task that runs or has failed"}],
                    "not_found": [],
                    "forbidden": [],
                },
            )
        },
        errors=(413, 422),
        adds_data=True,
        body=Body((FewJobsNamed,), {"two jobs": {"job_ids": [7, 42]}}),
    ),
    Endpoint(
        "POST",
        "/jobs/{job_id}/suspend",
        suspend,
        CHANGE_JOB,
        "jobs",
        "Suspend a job",
        "What runs is stopped, with its grace, to start anew once the job is resumed; this counts as no "
        "failure. What waits is not started. Suspending it again changes nothing.",
        {200: Answer("The job.", JobOut, {**JOB_EXAMPLE, "suspended_by": "alice"})},
        errors=(404, 409),
        params=(JOB_ID,),
    ),
    Endpoint(
        "POST",
        "/jobs/{job_id}/resume",
        resume,
        CHANGE_JOB,
        "jobs",
        "Resume a job that is suspended",
        "It goes on: its tasks wait again where they stood in line.",
        {200: Answer("The job.", JobOut, JOB_EXAMPLE)},
        errors=(404, 409),
        params=(JOB_ID,),
    ),
)
