"""Looking at jobs: the list, one of them, and why it waits."""

from typing import Any

import msgspec
from litestar import Response

from tgpu.api.access import sight_of
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.identity import Role
from tgpu.api.job_view import JobOut, job_out, whole_job_out
from tgpu.api.ports import NoLeaderError
from tgpu.api.problems import bad_request, not_found
from tgpu.api.query import parse_job_id
from tgpu.api.reply import json_reply
from tgpu.api.routes.params import EVENT_EXAMPLE, JOB_EXAMPLE, JOB_ID
from tgpu.api.why_view import WhyOut, why_of_a_job_that_is_not_live, why_out
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Status
from tgpu.store.port import JobFilter, Paging

_DEFAULT_PAGE = 100
_MAX_PAGE = 1000
_MAX_EVENTS = 10_000
_HOLDS = frozenset({Status.SCHEDULED, Status.RUNNING})


class JobPage(msgspec.Struct, kw_only=True):
    """Some jobs, and where to go on; `next_cursor` is null on the last page."""

    jobs: list[JobOut]
    next_cursor: int | None


async def job_or_404(call: Call) -> Job:
    job_id = parse_job_id(call.path("job_id"))
    job = await call.services.store.job(job_id)
    if job is None:
        raise not_found(f"there is no job {job_id}; `tgpu list --all` shows those there are")
    return job


async def list_jobs(call: Call) -> Response[Any]:
    query, settings = call.query, call.services.settings
    limit = query.whole("limit", 1, _MAX_PAGE) or _DEFAULT_PAGE
    paging = Paging(
        limit=limit + 1,  # one more than shown tells whether there is a next page
        cursor=query.whole("cursor", 0, MAX_JOB_ID),
        oldest_first=query.choice("order", ("newest", "oldest"), "newest") == "oldest",
    )
    found = await call.services.store.jobs(_filter(call), paging)
    page, more = found[:limit], len(found) > limit
    shown = [job_out(job, sight_of(job.spec.user, call.caller, settings)) for job in page]
    if any(job.status in _HOLDS for job in page):
        going = await _giving_way(call)
        for job in shown:
            job.giving_way = job.job_id in going
    return json_reply(JobPage(jobs=shown, next_cursor=page[-1].job_id if more else None))


async def _giving_way(call: Call) -> frozenset[int]:
    """Nobody, while no scheduler can tell: the list is worth more than that."""
    try:
        return frozenset(await call.services.live.giving_way())
    except NoLeaderError:
        return frozenset()


def _filter(call: Call) -> JobFilter:
    query, now_ms = call.query, call.services.now_ms()
    users = (call.caller.user if user == "me" else user for user in query.many("user"))
    return JobFilter(
        statuses=frozenset(_status(word) for word in query.many("status")),
        users=frozenset(users),
        tenant_id=query.one("tenant_id"),
        name_contains=query.one("name"),
        id_ranges=query.ranges("ids"),
        submitted_from_ms=query.time_ms("since", now_ms),
        submitted_until_ms=query.time_ms("until", now_ms),
    )


def _status(word: str) -> Status:
    try:
        return Status(word)
    except ValueError:
        raise bad_request(f"status must be one of {', '.join(Status)}; got {word[:40]!r}") from None


async def show_job(call: Call) -> Response[Any]:
    job, store = await job_or_404(call), call.services.store
    attempts = await store.attempts(job.job_id)
    events = await store.events(limit=_MAX_EVENTS, job_id=job.job_id)
    sight = sight_of(job.spec.user, call.caller, call.services.settings)
    return json_reply(whole_job_out(job, attempts, events, sight))


async def why(call: Call) -> Response[Any]:
    job = await job_or_404(call)
    answer = None if job.status.is_final else await call.services.live.why(job.job_id)
    return json_reply(why_out(answer) if answer else why_of_a_job_that_is_not_live(job))


_TEXT = {"type": "string"}
ENDPOINTS = (
    Endpoint(
        "GET",
        "/jobs",
        list_jobs,
        Role.VIEWER,
        "jobs",
        "List jobs",
        "Newest first. Everybody sees that a job exists, whose it is and what it holds; its command, "
        "environment, directory and exit are null to others than its owner and administrators.",
        {200: Answer("A page of jobs.", JobPage, {"jobs": [JOB_EXAMPLE], "next_cursor": None})},
        params=(
            Param("status", "Any of these; repeated or with commas.", _TEXT, "pending,running"),
            Param("user", "Any of these users; `me` is the caller.", _TEXT, "me"),
            Param("tenant_id", "Of this tenant.", _TEXT, "default"),
            Param("name", "With this in its name.", _TEXT, "train"),
            Param("ids", "With these ids.", {"type": "string", "pattern": r"^\d{1,9}(,\d{1,9})*$"}, "3,7-12"),
            Param("since", "Submitted since; a time, or how long ago.", _TEXT, "2h"),
            Param("until", "Submitted until; a time, or how long ago.", _TEXT, "2030-01-31T12:00:00Z"),
            Param("limit", "How many.", {"type": "integer", "minimum": 1, "maximum": _MAX_PAGE}, 100),
            Param("cursor", "The `next_cursor` of the page before.", {"type": "integer", "minimum": 0}, 42),
            Param("order", "By id.", {"type": "string", "enum": ["newest", "oldest"]}, "newest"),
        ),
    ),
    Endpoint(
        "GET",
        "/jobs/{job_id}",
        show_job,
        Role.VIEWER,
        "jobs",
        "Show a job",
        "The whole job, with every attempt and event.",
        {200: Answer("The job.", JobOut, {**JOB_EXAMPLE, "attempts": [], "events": [EVENT_EXAMPLE]})},
        errors=(404,),
        params=(JOB_ID,),
    ),
    Endpoint(
        "GET",
        "/jobs/{job_id}/why",
        why,
        Role.VIEWER,
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
                },
            )
        },
        errors=(404,),
        params=(JOB_ID,),
    ),
)
