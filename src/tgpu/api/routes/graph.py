"""Which jobs wait for which others: a picture of them, as data."""

from collections.abc import Sequence

import msgspec
from starlette.responses import Response

from tgpu.api.access import seen_by
from tgpu.api.endpoint import Answer, Call, Endpoint, Param
from tgpu.api.needs import LOOK
from tgpu.api.reply import json_reply
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import FINAL, Status
from tgpu.domain.needs import NeedKind
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.needs_port import NeedRow

_MOST_JOBS = 2000
_MOST_STEPS = 100
"""From the given jobs: each step reads the store twice, and a chain may be as long as there are jobs."""
_PAGE = 1000
_LIVE = frozenset(Status) - FINAL


class JobInGraph(msgspec.Struct, kw_only=True):
    """A job, in short."""

    job_id: int
    name: str
    user_id: str
    status: Status
    held_by: str | None
    needs_met: bool


class NeedOut(msgspec.Struct, kw_only=True):
    """A job waits for another one, or waited for it."""

    job_id: int
    on_job_id: int | None
    """null of a singleton, which waits for older jobs of its name."""
    kind: NeedKind


class Graph(msgspec.Struct, kw_only=True):
    """Jobs in the order of their numbers, and what each waits for."""

    jobs: Sequence[JobInGraph]
    needs: Sequence[NeedOut]
    cut: bool
    """Whether there is more than is shown."""


async def graph(call: Call) -> Response:
    """From some jobs, or from all of the caller's that are live, along all needs in both directions."""
    async with call.services.turns.turn(call.caller.user):
        return await _graph(call)


async def _graph(call: Call) -> Response:
    ids = call.query.ranges("ids")
    live = frozenset() if ids else _LIVE
    users = frozenset() if ids else frozenset({call.caller.user})
    where = JobFilter(statuses=live, users=users, id_ranges=ids, seen=await seen_by(call))
    found = {job.job_id: job for job in await call.services.store.jobs(where, Paging(limit=_MOST_JOBS))}
    given, rows, cut = set(found), set[NeedRow](), len(found) == _MOST_JOBS
    fresh = sorted(found)
    for step in range(_MOST_STEPS + 1):
        if not fresh:
            break
        around = await call.services.store.needs_around(fresh)
        rows.update(around)
        others = {each for row in around for each in (row.job_id, row.on) if each} - found.keys()
        room = max(0, _MOST_JOBS - len(found)) if step < _MOST_STEPS else 0
        cut = cut or len(others) > room
        new = await _jobs(call, sorted(others)[:room])
        found |= new
        fresh = sorted(new)
    shown = [row for row in sorted(rows, key=lambda row: row[:3]) if _is_shown(row, found)]
    linked = {each for row in shown for each in (row.job_id, row.on)}
    wanted = linked | (given if ids else set())
    return json_reply(
        Graph(
            jobs=[_job(job) for job_id, job in sorted(found.items()) if job_id in wanted],
            needs=[NeedOut(job_id=row.job_id, on_job_id=row.on or None, kind=row.kind) for row in shown],
            cut=cut,
        )
    )


def _is_shown(row: NeedRow, found: dict[int, Job]) -> bool:
    """Between jobs that the caller may know of."""
    return row.job_id in found and (not row.on or row.on in found)


def _job(job: Job) -> JobInGraph:
    timing = job.timing
    return JobInGraph(
        job_id=job.job_id,
        name=job.spec.name,
        user_id=job.spec.user,
        status=job.status,
        held_by=None if timing is None else timing.held_by,
        needs_met=timing is None or not timing.unmet,
    )


async def _jobs(call: Call, ids: Sequence[int]) -> dict[int, Job]:
    found: dict[int, Job] = {}
    seen = await seen_by(call)
    for start in range(0, len(ids), _PAGE):
        ranges = tuple((job_id, job_id) for job_id in ids[start : start + _PAGE])
        jobs = await call.services.store.jobs(JobFilter(id_ranges=ranges, seen=seen), Paging(limit=_PAGE))
        found |= {job.job_id: job for job in jobs}
    return found


ENDPOINTS = (
    Endpoint(
        "GET",
        "/graph",
        graph,
        LOOK,
        "jobs",
        "Show which jobs wait for which",
        "Those of your jobs that are live and have to do with others, or the given ones; and whatever these "
        "wait for, or is waiting for them, in both directions, up to 2000 jobs and 100 steps away. One "
        "request of a user is answered at a time.",
        {
            200: Answer(
                "The jobs, and what they wait for.",
                Graph,
                {
                    "jobs": [
                        {
                            "job_id": 41,
                            "name": "prepare",
                            "user_id": "alice",
                            "status": "running",
                            "held_by": None,
                            "needs_met": True,
                        },
                        {
                            "job_id": 42,
                            "name": "train",
                            "user_id": "alice",
                            "status": "pending",
                            "held_by": None,
                            "needs_met": False,
                        },
                    ],
                    "needs": [{"job_id": 42, "on_job_id": 41, "kind": "afterok"}],
                    "cut": False,
                },
            )
        },
        params=(Param("ids", "Which jobs: `42`, `40-45`, with commas.", {"type": "string"}, "42"),),
    ),
)
