"""The tasks of a job, and the groups they are of, as callers see them."""

from collections.abc import Mapping, Sequence

import msgspec

from tgpu.api.access import Sight
from tgpu.api.edge import decimal, optional_rfc3339
from tgpu.domain.exit_words import in_words
from tgpu.domain.job import Group, Job, TaskView
from tgpu.domain.label_rules import written
from tgpu.domain.lifecycle import Cause, Status


class TaskOut(msgspec.Struct, kw_only=True):
    """One task now. What the caller may not know is null."""

    task_id: str
    task_index: int
    """Its position among the tasks."""
    array_index: int | None
    """Of a series: the index by which it is named."""
    group: str
    status: Status
    node_id: str | None
    """Where it is, or was last."""
    devices: Sequence[int]
    attempt_count: int
    started_at: str | None
    ended_at: str | None
    cause: Cause | None
    reason: str | None
    exit_code: int | None
    signal: int | None = None
    """Which one ended it."""
    last_saved_at: str | None = None
    """When it last saved its work, as far as it said so."""


class GroupOut(msgspec.Struct, kw_only=True):
    """Tasks that are alike: what each of them runs and asks for, under the names that a job has for it."""

    name: str
    tasks: int
    command: Sequence[str] | str | None
    cpu_request: int | float
    mem_request_mb: int
    disk_request_mb: int
    gpu_request: int | float
    gpu_type: str | None
    gpu_memory_mb: int
    exclusive: bool
    generic: Mapping[str, int]
    pool: str | None
    node_selector: Mapping[str, str]
    node_rules: Sequence[str]
    tolerations: Sequence[str]


def task_out(job: Job, task: TaskView, sight: Sight) -> TaskOut:
    known = sight is not Sight.OUTLINE
    attempt = task.attempt
    ended = None if attempt is None or task.status.waits else attempt.exit
    cause = ended.cause if ended is not None else task.cause
    reason = task.detail or None
    if ended is not None and attempt is not None:
        reason = in_words(ended, attempt.stop_by, job.spec.time_limit_s)
    index = job.spec.index_at(task.task_id.task_index)
    has_place = attempt is not None and not task.status.waits
    return TaskOut(
        task_id=f"{job.job_id}.{index}",
        task_index=task.task_id.task_index,
        array_index=None if job.spec.series is None else index,
        group=task.group,
        status=task.status,
        node_id=attempt.node_id if attempt is not None and has_place else None,
        devices=attempt.devices if attempt is not None and has_place else (),
        attempt_count=task.attempts,
        started_at=optional_rfc3339(attempt.started_ms) if attempt is not None and has_place else None,
        ended_at=optional_rfc3339(ended.ended_ms) if ended is not None and ended.ended_ms else None,
        cause=cause,
        reason=reason if known else None,
        exit_code=ended.exit_code if ended is not None and known else None,
        signal=ended.signal if ended is not None and known else None,
        last_saved_at=optional_rfc3339(task.checkpoint_ms) if known else None,
    )


def group_out(group: Group, sight: Sight) -> GroupOut:
    request = group.request
    return GroupOut(
        name=group.name,
        tasks=group.tasks,
        command=group.command if sight is not Sight.OUTLINE else None,
        cpu_request=decimal(request.cpu_milli),
        mem_request_mb=request.memory_mib,
        disk_request_mb=request.disk_mib,
        gpu_request=decimal(request.gpu_milli),
        gpu_type=request.gpu_type,
        gpu_memory_mb=request.gpu_memory_mib,
        exclusive=request.exclusive,
        generic=dict(request.generic),
        pool=request.pool,
        node_selector=dict(request.node_selector),
        node_rules=[written(rule) for rule in request.node_rules],
        tolerations=request.tolerations,
    )
