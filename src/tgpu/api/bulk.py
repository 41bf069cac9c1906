"""Bulk requests: the jobs that a caller names, told apart by what the caller may do with each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from tgpu.api.access import seen_by
from tgpu.api.audit_note import note
from tgpu.api.decode import MIB, decode, read_body
from tgpu.api.endpoint import Call
from tgpu.api.needs import Needs
from tgpu.api.permission import may_with
from tgpu.api.problems import unprocessable
from tgpu.domain.ids import MAX_JOB_ID
from tgpu.domain.job import Job

MOST = 10_000
MOST_RETRIED = 1000
"""Each retry is a submission of its own."""

_ITEMS: dict[str, object] = {"minItems": 1, "items": {"type": "integer", "minimum": 1}}


class JobsNamed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The jobs that are meant."""

    job_ids: Annotated[list[int], Meta(extra_json_schema={**_ITEMS, "maxItems": MOST})]


class FewJobsNamed(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The jobs that are meant."""

    job_ids: Annotated[list[int], Meta(extra_json_schema={**_ITEMS, "maxItems": MOST_RETRIED})]


class RefusedJob(msgspec.Struct, kw_only=True):
    """A job that stays as it is, and why."""

    job_id: int
    detail: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """In the order in which they were named."""

    allowed: list[Job]
    not_found: list[int]
    forbidden: list[int]


_named = msgspec.json.Decoder(JobsNamed)


async def read_ids(call: Call, most: int = MOST) -> list[int]:
    """Of a body that names jobs and nothing else. Raises ProblemError."""
    return checked_ids(decode(_named, await read_body(call, MIB)).job_ids, most)


def checked_ids(job_ids: Iterable[int], most: int = MOST) -> list[int]:
    """Each once. Raises ProblemError."""
    ids = list(dict.fromkeys(job_ids))
    if not 0 < len(ids) <= most:
        raise unprocessable("job_ids", f"job_ids must have 1 to {most} ids; got {len(ids)}")
    if any(not 0 < job_id <= MAX_JOB_ID for job_id in ids):
        raise unprocessable("job_ids", "job_ids must be positive numbers, such as 42")
    return ids


async def choose(call: Call, ids: Sequence[int], needs: Needs) -> Chosen:
    """`needs`: the permission on each job. A job that the caller may not see does not exist for it."""
    seen, settings = await seen_by(call), call.services.settings
    chosen = Chosen([], [], [])
    for job_id, job in zip(ids, await call.services.store.jobs_by_id(ids), strict=True):
        if job is None or not (seen is None or seen.has(job.spec.user, job.spec.tenant_id)):
            chosen.not_found.append(job_id)
        elif may_with(job, needs, call.caller, settings):
            chosen.allowed.append(job)
        else:
            chosen.forbidden.append(job_id)
    return chosen


async def note_bulk(call: Call, action: str, jobs: Sequence[Job], **facts: object) -> None:
    """One line of the audit log for each owner other than the caller: the events of a user's own jobs
    record what that user did."""
    for user in sorted({job.spec.user for job in jobs} - {call.caller.user}):
        ids = sorted(job.job_id for job in jobs if job.spec.user == user)
        target = f"job/{ids[0]}" if len(ids) == 1 else f"jobs/{ids[0]}-{ids[-1]}"
        await note(call, action, target, after={"user": user, "job_ids": ids, **facts})
