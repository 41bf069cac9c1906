"""Looking at jobs: the list, one of them, and why it waits."""

from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Any, cast

import msgspec
from litestar import Response
from msgspec import UNSET, UnsetType

from tgpu.api.access import Sight, known_jobs, sight_of
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.job_actions import actions_of
from tgpu.api.job_filter import FILTERS
from tgpu.api.job_list import PARAMS, JobList
from tgpu.api.job_row import JobRow, job_row
from tgpu.api.job_view import JobOut, attempts_out, job_out, whole_job_out
from tgpu.api.needs import LOOK, LOOK_AT_JOB
from tgpu.api.ports import NoLeaderError
from tgpu.api.priority_classes import without_forbidden_advice
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import EVENT_EXAMPLE, JOB_EXAMPLE, JOB_ID
from tgpu.api.start_view import add_expected_starts
from tgpu.api.why_view import WhyOut, jobs_named, why_of_a_job_that_is_not_live, why_out
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Status
from tgpu.store.task_paging import TaskPaging

_DEFAULT_PAGE = 100
_MAX_PAGE = 1000
_MAX_IDS = 10_000
_MAX_EVENTS = 10_000
_MAX_TASKS = 1000
_MAX_ATTEMPTS = 10_000
_HOLDS = frozenset({Status.SCHEDULED, Status.RUNNING})


class JobPage(msgspec.Struct, kw_only=True):
    """Some jobs, and where to go on; `next_cursor` is null on the last page."""

    jobs: list[JobOut]
    next_cursor: int | str | None
    total: int | UnsetType = UNSET
    """With `total`: how many jobs match, on all pages together."""
    total_is_exact: bool | UnsetType = UNSET
    """False: there are more than `total`."""


class JobRows(msgspec.Struct, kw_only=True):
    """With `view=list`: the same in short."""

    jobs: list[JobRow]
    next_cursor: int | str | None
    total: int | UnsetType = UNSET
    total_is_exact: bool | UnsetType = UNSET


class JobIdPage(msgspec.Struct, kw_only=True):
    """With `view=ids`: the ids of the jobs, up to 10,000."""

    job_ids: list[int]
    total: int | UnsetType = UNSET
    total_is_exact: bool | UnsetType = UNSET


async def list_jobs(call: Call) -> Response[Any]:
    async with call.services.turns.page(call.caller.user):
        return await _list_jobs(call)


async def _list_jobs(call: Call) -> Response[Any]:
    query = call.query
    view = query.choice("view", ("whole", "list", "ids"), "whole")
    if view == "ids":
        return await _list_ids(call)
    limit = query.whole("limit", 1, _MAX_PAGE) or _DEFAULT_PAGE
    asked = await JobList.of(call, limit + 1)  # one more than shown tells whether there is a next page
    async with _turn(call):
        found, counted = await asked.jobs(call), await _total(call, asked)
    page = [each.job for each in found[:limit]]
    next_cursor = asked.cursor_at(found[limit - 1]) if len(found) > limit else None
    shown = [(job_row if view == "list" else job_out)(job, _sight(job, call)) for job in page]
    if query.flag("attempts") and view == "whole":
        async with call.services.turns.turn(call.caller.user):
            for whole, out in zip(page, shown, strict=True):
                await _add_attempts(call, whole, cast("JobOut", out))
    if any(job.status in _HOLDS for job in page):
        going = await _giving_way(call)
        for out in shown:
            out.giving_way = out.job_id in going
    if query.flag("actions"):
        for out, actions in zip(shown, await actions_of(call, page), strict=True):
            out.actions = actions
    if query.flag("expected_start"):
        await add_expected_starts(call, page, shown)
    kind: Any = JobRows if view == "list" else JobPage
    return json_reply(kind(jobs=shown, next_cursor=next_cursor, **counted))


async def _list_ids(call: Call) -> Response[Any]:
    asked = await JobList.of(call, call.query.whole("limit", 1, _MAX_IDS) or _MAX_IDS)
    async with _turn(call):
        counted = await _total(call, asked)
        return json_reply(JobIdPage(job_ids=await asked.ids(call), **counted))


def _turn(call: Call) -> AbstractAsyncContextManager[None]:
    """For lists that are searched, sorted or counted: they read many jobs, and the scheduler reads too."""
    query = call.query
    reads_many = query.flag("total") or any(query.one(name) is not None for name in ("q", "sort", "skip"))
    return call.services.turns.turn(call.caller.user) if reads_many else nullcontext()


async def _total(call: Call, asked: JobList) -> dict[str, Any]:
    if not call.query.flag("total"):
        return {}
    total, is_exact = await asked.total(call)
    return {"total": total, "total_is_exact": is_exact}


async def _add_attempts(call: Call, job: Job, out: JobOut) -> None:
    store = call.services.store
    attempts = await store.attempts(job.job_id)
    used = await store.usage(job.job_id)
    out.attempts = attempts_out(job, attempts, used, _sight(job, call))


async def _giving_way(call: Call) -> frozenset[int]:
    """Nobody, while no scheduler can tell: the list is worth more than that."""
    try:
        return frozenset(await call.services.live.giving_way())
    except NoLeaderError:
        return frozenset()


def _sight(job: Job, call: Call) -> Sight:
    return sight_of(job.spec.user, job.spec.tenant_id, call.caller, call.services.settings)


async def show_job(call: Call) -> Response[Any]:
    job, store = call.job, call.services.store
    some = _MAX_TASKS if job.spec.series is not None else _MAX_ATTEMPTS
    attempts = await store.attempts(job.job_id, most=some)
    events = await store.events(limit=min(some, _MAX_EVENTS), job_id=job.job_id)
    used = await store.usage(job.job_id, some)
    tasks = await store.tasks(job.job_id, TaskPaging(limit=_MAX_TASKS))
    out = whole_job_out(job, attempts, events, _sight(job, call), used, tasks)
    out.starting_note = await _starting_note(call) or None
    if call.query.flag("actions"):
        (out.actions,) = await actions_of(call, [job])
    if call.query.flag("expected_start"):
        await add_expected_starts(call, [job], [out])
    return json_reply(out)


async def _starting_note(call: Call) -> str:
    """How far it is, to those who may know; nothing, while no scheduler can tell."""
    if call.job.status is not Status.SCHEDULED or _sight(call.job, call) is Sight.OUTLINE:
        return ""
    try:
        return await call.services.live.starting_note(call.job.job_id)
    except NoLeaderError:
        return ""


async def why(call: Call) -> Response[Any]:
    job = call.job
    answer = None if job.status.is_final else await call.services.live.why(job.job_id)
    if answer is None:
        whole = _sight(job, call) is not Sight.OUTLINE
        return json_reply(why_of_a_job_that_is_not_live(job, whole=whole))
    if note := await _starting_note(call):
        answer = replace(answer, summary=f"{answer.summary}: {note}")
    named = {holder.job_id for holder in answer.holders} | jobs_named(answer.reasons)
    known = await known_jobs(call, named)
    answer = await without_forbidden_advice(call, answer, job.spec.tenant_id)
    return json_reply(why_out(answer, known))


_ACTIONS = Param(
    "actions",
    "Whether each job lists the actions that the caller may take on it now.",
    {"type": "boolean"},
    False,
)
_EXPECTED_START = Param(
    "expected_start", "Whether pending jobs show when they are expected to start.", {"type": "boolean"}, False
)
ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs",
        list_jobs,
        LOOK,
        "jobs",
        "List jobs",
        "Newest first. Everybody sees that a job exists, whose it is and what it holds, unless the house "
        "keeps tenants apart (`others_see`); its command, environment, directory and exit are null to others "
        "than its owner, its tenant's members and administrators.",
        {
            200: Answer(
                "A page of jobs.",
                (JobPage, JobRows, JobIdPage),
                {"jobs": [JOB_EXAMPLE], "next_cursor": None},
            )
        },
        errors=(422,),
        params=(
            *FILTERS,
            Param("attempts", "Whether each shows its attempts, too.", {"type": "boolean"}, False),
            _EXPECTED_START,
            _ACTIONS,
            Param(
                "view",
                "How much of each job: all, a row of a table, or only its id.",
                {"type": "string", "enum": ["whole", "list", "ids"]},
                "whole",
            ),
            Param(
                "limit",
                "How many; with `view=ids` up to 10,000.",
                {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE},
                100,
            ),
            *PARAMS,
        ),
    ),
    Endpoint(
        "GET",
        "/jobs/{job_id}",
        show_job,
        LOOK_AT_JOB,
        "jobs",
        "Show a job",
        "The whole job, with its attempts and events, and of a job of several tasks the first 1000 of these.",
        {200: Answer("The job.", JobOut, {**JOB_EXAMPLE, "attempts": [], "events": [EVENT_EXAMPLE]})},
        errors=(404,),
        params=(JOB_ID, _ACTIONS, _EXPECTED_START),
    ),
    Endpoint(
        "GET",
        "/jobs/{job_id}/why",
        why,
        LOOK_AT_JOB,
        "jobs",
        "Say why a job waits",
        "What stands between the job and its start, who has what it needs, when it starts by what is known "
        "now, and the smallest change that would start it at once.",
        {
            200: Answer(
                "The answer.",
                WhyOut,
                {
                    "job_id": 42,
                    "waiting": True,
                    "summary": "waits: needs 2 GPUs; ws1 has 1 of 8 GPUs free",
                    "reasons": [
                        {
                            "code": "gpus",
                            "text": "needs 2 GPUs; ws1 has 1 of 8 GPUs free",
                            "data": {"node_id": "ws1", "needs": 2, "free": 1, "of": 8},
                        }
                    ],
                    "holders": [],
                    "position": 1,
                    "starts_at": "2026-01-31T14:05:00.000Z",
                    "estimate": "has a reservation: starts ≈ 14:05 UTC on ws1",
                    "advice": {
                        "field": "gpu_request",
                        "now": 2,
                        "instead": 1,
                        "text": "with --gpus 1 it would start now on ws1",
                    },
                    "start_interval": {
                        "earliest": "2026-01-31T13:40:00.000Z",
                        "expected": "2026-01-31T14:05:00.000Z",
                        "latest": "2026-01-31T15:10:00.000Z",
                        "basis": "run times of 12 similar jobs",
                    },
                },
            )
        },
        errors=(404,),
        params=(JOB_ID,),
    ),
)
