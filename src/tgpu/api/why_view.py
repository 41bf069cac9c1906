"""The answer to "why does my job wait?" as callers see it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tgpu.api.edge import decimal
from tgpu.api.reasons import how_it_ended
from tgpu.domain.job import Job
from tgpu.domain.views import Why


class ReasonOut(msgspec.Struct, kw_only=True):
    """One thing in the way: a code for programs, a sentence for people."""

    code: str
    text: str
    data: Mapping[str, Any]


class HolderOfNeeded(msgspec.Struct, kw_only=True):
    """Who has what the job needs."""

    job_id: int
    user: str
    name: str
    gpu: int | float
    devices: Sequence[int]
    node_id: str
    running_s: float | None
    remaining_s: float | None


class WhyOut(msgspec.Struct, kw_only=True):
    """What stands between a job and its start."""

    job_id: int
    waiting: bool
    summary: str
    reasons: list[ReasonOut] = []
    holders: list[HolderOfNeeded] = []
    position: int | None = None


def why_out(why: Why) -> WhyOut:
    return WhyOut(
        job_id=why.job_id,
        waiting=why.waiting,
        summary=why.summary,
        reasons=[ReasonOut(code=reason.code, text=reason.text, data=reason.data) for reason in why.reasons],
        holders=[
            HolderOfNeeded(
                job_id=holder.job_id,
                user=holder.user,
                name=holder.name,
                gpu=decimal(holder.gpu_milli),
                devices=holder.devices,
                node_id=holder.node_id,
                running_s=holder.running_s,
                remaining_s=holder.remaining_s,
            )
            for holder in why.holders
        ],
        position=why.position,
    )


def why_of_a_job_that_is_not_live(job: Job) -> WhyOut:
    if job.status.is_final:
        return WhyOut(job_id=job.job_id, waiting=False, summary=f"It does not wait: {how_it_ended(job)}.")
    if job.status.waits:
        return WhyOut(job_id=job.job_id, waiting=True, summary="It was submitted a moment ago; ask again.")
    summary = f"It does not wait: it is {job.status} on {job.node_id}."
    return WhyOut(job_id=job.job_id, waiting=False, summary=summary)
