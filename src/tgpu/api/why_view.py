"""The answer to "why does my job wait?" as callers see it."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tgpu.api.edge import decimal, optional_rfc3339
from tgpu.api.reasons import how_it_ended, reason_of
from tgpu.api.start_interval import StartIntervalOut, interval_out
from tgpu.domain.job import Job
from tgpu.domain.label_rules import written
from tgpu.domain.lifecycle import Status
from tgpu.domain.views import Advice, Reason, Why


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
    gpu_memory_mb: int
    """Of one GPU, if it was asked for by memory; then `gpu` is 0."""
    licences: Mapping[str, int]
    """How many it has of those that the job lacks."""
    cpu: int | float
    """What it has of CPUs, memory, disk and generic resources, where the job lacks them; else 0."""
    mem_mb: int
    disk_mb: int
    generic: Mapping[str, int]
    devices: Sequence[int]
    node_id: str
    running_s: float | None
    remaining_s: float | None


class AdviceOut(msgspec.Struct, kw_only=True):
    """The smallest change to the job with which it would start now."""

    field: str
    """As a submission names it; `topology` and `per_node` are a gang's."""
    now: Any
    instead: Any
    text: str


class WhyOut(msgspec.Struct, kw_only=True):
    """What stands between a job and its start."""

    job_id: int
    waiting: bool
    summary: str
    reasons: list[ReasonOut] = []
    holders: list[HolderOfNeeded] = []
    position: int | None = None
    starts_at: str | None = None
    estimate: str | None = None
    """The same for people, and how sure it is."""
    advice: AdviceOut | None = None
    start_interval: StartIntervalOut | None = None
    """When it is expected to start."""


def jobs_named(reasons: Iterable[Reason]) -> set[int]:
    """Other jobs that these reasons speak of."""
    found: set[int] = set()
    for reason in reasons:
        for key in ("job_id", "job_ids"):
            said = reason.data.get(key, ())
            found.update(
                each for each in (said if isinstance(said, list | tuple) else [said]) if type(each) is int
            )
    return found


def reason_out(reason: Reason, known: Collection[int]) -> ReasonOut:
    if all(job_id in known for job_id in jobs_named([reason])):
        return ReasonOut(code=reason.code, text=reason.text, data=reason.data)
    hidden = (
        "needs other jobs to be over first"
        if reason.code == "needs"
        else "others come first, or have what it needs"
    )
    return ReasonOut(code=reason.code, text=hidden, data={})


def why_out(why: Why, known: Collection[int]) -> WhyOut:
    """`known`: the jobs, of those it speaks of, that the caller may know of."""
    reasons = [reason_out(reason, known) for reason in why.reasons]
    kept_back = any(out.text != reason.text for out, reason in zip(reasons, why.reasons, strict=True))
    return WhyOut(
        job_id=why.job_id,
        waiting=why.waiting,
        summary=f"waits: {'; '.join(reason.text for reason in reasons)}" if kept_back else why.summary,
        reasons=reasons,
        holders=[
            HolderOfNeeded(
                job_id=holder.job_id,
                user=holder.user,
                name=holder.name,
                gpu=decimal(holder.gpu_milli),
                gpu_memory_mb=holder.gpu_memory_mib,
                licences=dict(holder.licences),
                cpu=decimal(holder.cpu_milli),
                mem_mb=holder.memory_mib,
                disk_mb=holder.disk_mib,
                generic=dict(holder.generic),
                devices=holder.devices,
                node_id=holder.node_id,
                running_s=holder.running_s,
                remaining_s=holder.remaining_s,
            )
            for holder in why.holders
            if holder.job_id in known
        ],
        position=why.position,
        starts_at=optional_rfc3339(why.starts_at_ms),
        estimate=why.estimate,
        advice=_advice_out(why.advice) if why.advice is not None else None,
        start_interval=interval_out(why.start) if why.start is not None else None,
    )


def _advice_out(advice: Advice) -> AdviceOut:
    name, outside = _OUTSIDE.get(advice.field, (advice.field, _as_it_is))
    return AdviceOut(field=name, now=outside(advice.now), instead=outside(advice.instead), text=advice.text)


def _as_it_is(value: Any) -> object:  # noqa: ANN401  each field has its own type
    return value


def _rules(value: Any) -> object:  # noqa: ANN401
    return [written(rule) for rule in value]


_OUTSIDE: dict[str, tuple[str, Callable[[Any], object]]] = {
    "gpu_milli": ("gpu_request", decimal),
    "cpu_milli": ("cpu_request", decimal),
    "memory_mib": ("mem_request_mb", _as_it_is),
    "disk_mib": ("disk_request_mb", _as_it_is),
    "gpu_memory_mib": ("gpu_memory_mb", _as_it_is),
    "generic": ("generic", dict),
    "node_selector": ("node_selector", dict),
    "node_rules": ("node_rules", _rules),
    "tolerations": ("tolerations", list),
}
"""Under which name, and how, callers know a field."""


def why_of_a_job_that_is_not_live(job: Job, *, whole: bool) -> WhyOut:
    """`whole`: the caller may know how it ended."""
    if job.status.is_final:
        told = how_it_ended(job)
        if whole and job.cause is not None and job.status is Status.FAILED:
            told = f"it has failed: {reason_of(job)}"
        return WhyOut(job_id=job.job_id, waiting=False, summary=f"It does not wait: {told}.")
    if job.status.waits and job.born is not None and job.born < job.spec.task_count:
        summary = "It waits: its tenant's quota has no room for more of its tasks until others leave."
        return WhyOut(job_id=job.job_id, waiting=True, summary=summary)
    if job.status.waits:
        return WhyOut(job_id=job.job_id, waiting=True, summary="It was submitted a moment ago; ask again.")
    summary = f"It does not wait: it is {job.status} on {job.node_id}."
    return WhyOut(job_id=job.job_id, waiting=False, summary=summary)
