"""Rows of the job list: what a table shows of a job, and no more."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from tgpu.api.access import Sight
from tgpu.api.edge import decimal, optional_rfc3339, rfc3339
from tgpu.api.job_actions import JobAction
from tgpu.api.reasons import reason_of
from tgpu.api.start_interval import StartIntervalOut
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.priority import PriorityClass
from tgpu.store.job_listing import command_text, gpus_milli


class JobRow(msgspec.Struct, kw_only=True):
    """A job in a table. What the caller may not know is null."""

    job_id: int
    name: str
    user_id: str
    tenant_id: str
    status: Status
    cause: Cause | None
    reason: str | None
    exit_code: int | None
    priority_class: PriorityClass
    priority: int
    gpus: int | float
    """Of all tasks together."""
    cpu_request: int | float
    """Of one task of the first group, as the next one."""
    mem_request_mb: int
    tasks: int
    task_counts: Mapping[Status, int] | UnsetType = UNSET
    """Of a job of several tasks."""
    array: str | None
    command: str | None
    """Its beginning, in one line."""
    assigned_node_id: str | None
    devices: Sequence[int]
    attempt_count: int
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    begin_at: str | None
    time_limit_s: int | None
    held: bool
    """Whether it is pending until its tenant's quota admits it."""
    held_by: str | None
    suspended_by: str | None
    needs_met: bool
    """Whether its dependencies are met."""
    cancel_requested_by: str | None
    giving_way: bool = False
    """Whether it is being preempted."""
    actions: Sequence[JobAction] | UnsetType = UNSET
    expected_start: str | None = None
    """This and the next two: of a pending job, if the caller asked with `expected_start=true`."""
    start_interval: StartIntervalOut | None = None
    no_expected_start: str | None = None


def job_row(job: Job, sight: Sight) -> JobRow:
    spec, timing, known = job.spec, job.timing, sight is not Sight.OUTLINE
    request = spec.groups[0].request
    return JobRow(
        job_id=job.job_id,
        name=spec.name,
        user_id=spec.user,
        tenant_id=spec.tenant_id,
        status=job.status,
        cause=job.cause,
        reason=reason_of(job) if known else None,
        exit_code=job.exit_code if known else None,
        priority_class=spec.priority_class,
        priority=spec.priority,
        gpus=decimal(gpus_milli(spec)),
        cpu_request=decimal(request.cpu_milli),
        mem_request_mb=request.memory_mib,
        tasks=spec.task_count,
        task_counts=job.task_counts if spec.task_count > 1 else UNSET,
        array=None if spec.series is None else spec.series.indices.text,
        command=command_text(spec) if known else None,
        assigned_node_id=job.node_id,
        devices=job.devices,
        attempt_count=job.attempts,
        submitted_at=rfc3339(job.submitted_ms),
        started_at=optional_rfc3339(job.started_ms),
        ended_at=optional_rfc3339(job.ended_ms),
        begin_at=None if timing is None else optional_rfc3339(timing.begin_ms),
        time_limit_s=spec.time_limit_s,
        held=job.held,
        held_by=None if timing is None else timing.held_by,
        suspended_by=None if timing is None else timing.suspended_by,
        needs_met=timing is None or not timing.unmet,
        cancel_requested_by=job.cancel_by if known else None,
    )
