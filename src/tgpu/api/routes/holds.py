"""Jobs that wait: held, released, and changed."""

from collections.abc import Iterable
from typing import Any

import msgspec
from starlette.responses import Response

from tgpu.api.access import Sight, sight_of
from tgpu.api.audit_note import note
from tgpu.api.bulk import JobsNamed, RefusedJob, choose, note_bulk, read_ids
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.edit_form import EditAsked
from tgpu.api.edit_rules import can_be_paced, changes_of, edited, is_only_paced
from tgpu.api.endpoint import Answer, Body, Call, Endpoint
from tgpu.api.job_rules import Defaults
from tgpu.api.job_terms import check_priority, under_terms
from tgpu.api.job_view import JobOut, job_out
from tgpu.api.needs import CHANGE_JOB, SUBMIT
from tgpu.api.never_words import for_tenant
from tgpu.api.permission import check_undoing, may_undo
from tgpu.api.ports import NoLeaderError
from tgpu.api.problems import ProblemError
from tgpu.api.reasons import how_it_ended
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import JOB_EXAMPLE, JOB_ID
from tgpu.api.routes.submit import capped_token
from tgpu.api.timing_rules import check_in_time
from tgpu.domain.job import Job, JobSpec
from tgpu.domain.priority import PriorityClass
from tgpu.store import timings
from tgpu.store.demand import within_limits
from tgpu.store.needs_port import NotWaitingError

_edit = msgspec.json.Decoder(EditAsked)


async def hold(call: Call) -> Response:
    job, by, at_ms = call.job, call.caller.user, call.services.now_ms()
    before = (await call.services.store.hold([job.job_id], by, at_ms))[0] or job
    if not timings.is_held(before) and not timings.may_be_held(before):
        raise _does_not_wait(before, "held")
    await _note(call, "job.hold", {})
    return _reply(call, await _now(call, before))


class HeldJobs(msgspec.Struct, kw_only=True):
    """What became of each id."""

    held: list[int]
    refused: list[RefusedJob]
    not_found: list[int]
    forbidden: list[int]


class ReleasedJobs(msgspec.Struct, kw_only=True):
    """What became of each id."""

    released: list[int]
    refused: list[RefusedJob]
    not_found: list[int]
    forbidden: list[int]


async def hold_many(call: Call) -> Response:
    chosen = await choose(call, await read_ids(call), CHANGE_JOB)
    store, by, at_ms = call.services.store, call.caller.user, call.services.now_ms()
    ids = [job.job_id for job in chosen.allowed]
    before = await store.hold(ids, by, at_ms) if ids else []
    held, refused = [], []
    for known, was in zip(chosen.allowed, before, strict=True):
        job = was or known
        if timings.is_held(job) or timings.may_be_held(job):
            held.append(job)
        else:
            refused.append(RefusedJob(job_id=job.job_id, detail=_does_not_wait(job, "held").detail))
    await note_bulk(call, "job.hold", held)
    return json_reply(
        HeldJobs(
            held=[job.job_id for job in held],
            refused=refused,
            not_found=chosen.not_found,
            forbidden=chosen.forbidden,
        )
    )


async def release_many(call: Call) -> Response:
    chosen = await choose(call, await read_ids(call), CHANGE_JOB)
    store, by, at_ms = call.services.store, call.caller.user, call.services.now_ms()
    mine = [job for job in chosen.allowed if may_undo(call.caller, job, _holder(job))]
    kept = {job.job_id for job in chosen.allowed} - {job.job_id for job in mine}
    ids = [job.job_id for job in mine]
    before = await store.release(ids, by, at_ms) if ids else []
    released, refused = [], []
    for known, was in zip(mine, before, strict=True):
        job = was or known
        if timings.is_held(job):
            released.append(job)
        else:
            refused.append(RefusedJob(job_id=job.job_id, detail=f"job {job.job_id} is not held"))
    await note_bulk(call, "job.release", released)
    return json_reply(
        ReleasedJobs(
            released=[job.job_id for job in released],
            refused=refused,
            not_found=chosen.not_found,
            forbidden=sorted([*chosen.forbidden, *kept]),
        )
    )


async def release(call: Call) -> Response:
    job, by = call.job, call.caller.user
    check_undoing(call, _holder(job), "held", "release")
    before = (await call.services.store.release([job.job_id], by, call.services.now_ms()))[0] or job
    if not timings.is_held(before):
        raise ProblemError(
            409, "not-held", f"job {job.job_id} is not held; `tgpu why {job.job_id}` says more"
        )
    await _note(call, "job.release", {})
    return _reply(call, await _now(call, before))


async def edit(call: Call) -> Response:
    job, services = call.job, call.services
    said = changes_of(decode(_edit, await read_body(call, MIB)))
    has_begun = not all(each.waits for each, number in job.task_counts.items() if number)
    if has_begun and (not is_only_paced(said) or job.status.is_final):
        raise _does_not_wait(job, "changed")
    spec = edited(job.spec, said, Defaults.of(services.settings))
    check_priority(call, spec, job.spec.priority)
    if not is_only_paced(said):
        spec = await _as_a_submission(call, spec, job.spec.priority_class)
    told = msgspec.to_builtins(said)
    try:
        after = await services.store.edit(
            job, spec, call.caller.user, services.now_ms(), told, capped_token(call)
        )
    except NotWaitingError as refusal:
        raise _does_not_wait(refusal.job, "changed") from None
    await _note(call, "job.edit", _shown(after, told), _shown(job, told))
    return _reply(call, after)


async def _as_a_submission(call: Call, spec: JobSpec, before: PriorityClass) -> JobSpec:
    """Judged as one, but the job keeps its class. Raises ProblemError."""
    terms = (await call.book.pages()).effective_terms(spec.tenant_id)
    spec = under_terms(call.caller, spec, terms, before)
    check_in_time(spec, call.services.now_ms())
    await _check_fit(call, spec, terms.named_limits)
    return spec


async def _check_fit(call: Call, spec: JobSpec, named_limits: frozenset[str]) -> None:
    requests = [within_limits(group.request, named_limits) for group in spec.groups]
    live = call.services.live
    try:
        verdicts = [
            why_not if why_not is None else await for_tenant(live, why_not, request, spec)
            for request, why_not in zip(requests, await live.never_fits(requests), strict=True)
        ]
        if spec.gang is not None:
            members = [(each, group.tasks) for each, group in zip(requests, spec.groups, strict=True)]
            verdicts.append(await live.gang_never_fits(spec.gang, members))
    except NoLeaderError:
        return
    for why_not in verdicts:
        if why_not is not None:
            raise ProblemError(422, "never-fits", f"it could never run here then: {why_not}")


def _holder(job: Job) -> str | None:
    return None if job.timing is None else job.timing.held_by


def _does_not_wait(job: Job, deed: str) -> ProblemError:
    if job.status.is_final:
        why = how_it_ended(job)
    elif job.status.waits:
        why = "some of its tasks have begun, or are over"
    else:
        why = f"it is {job.status}"
    if deed == "changed" and can_be_paced(job.spec) and not job.status.is_final:
        why += (
            "; of an array that has begun, only how many of it are live at once "
            f"(`tgpu edit {job.job_id} --array %5`)"
        )
    return ProblemError(
        409,
        "not-waiting",
        f"job {job.job_id} cannot be {deed}, for only what waits can be: {why}",
        extras={"job_status": job.status},
    )


async def _now(call: Call, before: Job) -> Job:
    return await call.services.store.job(before.job_id) or before


def _shown(job: Job, names: Iterable[str]) -> dict[str, Any]:
    """Some of its fields."""
    shown = job_out(job, Sight.WHOLE)
    return {name: getattr(shown, name) for name in names}


async def _note(call: Call, action: str, after: dict[str, Any], before: dict[str, Any] | None = None) -> None:
    """What one does with one's own jobs is told by their events."""
    owner = call.job.spec.user
    if owner != call.caller.user:
        was = None if before is None else {"user": owner, **before}
        await note(call, action, f"job/{call.job.job_id}", before=was, after={"user": owner, **after})


def _reply(call: Call, job: Job) -> Response:
    sight = sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)
    return json_reply(job_out(job, sight))


ENDPOINTS = (
    Endpoint(
        "POST",
        "/jobs/hold",
        hold_many,
        SUBMIT,
        "jobs",
        "Hold many jobs",
        "Holds the jobs that can be held and reports the outcome for each id.",
        {
            200: Answer(
                "What became of each.",
                HeldJobs,
                {
                    "held": [42],
                    "refused": [{"job_id": 7, "detail": "job 7 cannot be held: it has completed"}],
                    "not_found": [],
                    "forbidden": [],
                },
            )
        },
        errors=(413, 422),
        body=Body((JobsNamed,), {"two jobs": {"job_ids": [7, 42]}}),
    ),
    Endpoint(
        "POST",
        "/jobs/release",
        release_many,
        SUBMIT,
        "jobs",
        "Release many jobs",
        "Releases the jobs that are held and reports the outcome for each id.",
        {
            200: Answer(
                "What became of each.",
                ReleasedJobs,
                {
                    "released": [42],
                    "refused": [{"job_id": 7, "detail": "job 7 is not held"}],
                    "not_found": [],
                    "forbidden": [],
                },
            )
        },
        errors=(413, 422),
        body=Body((JobsNamed,), {"two jobs": {"job_ids": [7, 42]}}),
    ),
    Endpoint(
        "POST",
        "/jobs/{job_id}/hold",
        hold,
        CHANGE_JOB,
        "jobs",
        "Hold a job",
        "What of it waits is not started until it is released. What runs goes on, and is held once it waits "
        "again. Holding it again changes nothing.",
        {200: Answer("The job.", JobOut, {**JOB_EXAMPLE, "held_by": "alice"})},
        errors=(404, 409),
        params=(JOB_ID,),
    ),
    Endpoint(
        "POST",
        "/jobs/{job_id}/release",
        release,
        CHANGE_JOB,
        "jobs",
        "Release a job that is held",
        "Who held it may release it, and operators of its tenant.",
        {200: Answer("The job.", JobOut, JOB_EXAMPLE)},
        errors=(404, 409),
        params=(JOB_ID,),
    ),
    Endpoint(
        "PATCH",
        "/jobs/{job_id}",
        edit,
        CHANGE_JOB,
        "jobs",
        "Change a job that waits",
        "Judged as a submission is: by its tenant's terms, its quota and what its token may still be used "
        "for, exactly. It keeps its place in line. Of a series that has begun, `at_once` can be changed.",
        {200: Answer("The job, as it is now.", JobOut, JOB_EXAMPLE)},
        errors=(404, 409, 413, 422),
        params=(JOB_ID,),
        body=Body((EditAsked,), {"a longer limit": {"time_limit_s": 7200, "priority": 5}}),
    ),
)
