"""A job as callers see it, in as much detail as they may."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from tgpu.api.access import Sight, masked
from tgpu.api.edge import decimal, optional_rfc3339, rfc3339
from tgpu.api.job_actions import JobAction
from tgpu.api.reasons import reason_of
from tgpu.api.reproducible_form import ReproducibleOut, reproducible_out
from tgpu.api.series_form import series_out
from tgpu.api.start_interval import StartIntervalOut
from tgpu.api.task_view import GroupOut, TaskOut, group_out, task_out
from tgpu.api.use_view import UseOut, advice_of, use_out
from tgpu.domain.container import Pull
from tgpu.domain.dialect import DialectName
from tgpu.domain.exit_words import in_words
from tgpu.domain.job import Attempt, Event, Job, OnReturn, TaskView
from tgpu.domain.label_rules import written
from tgpu.domain.lifecycle import AttemptState, Cause, Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.usage import Usage


class AttemptOut(msgspec.Struct, kw_only=True):
    """One try: where, from when to when, and how it ended."""

    attempt_id: str
    task_index: int
    number: int
    status: AttemptState
    node_id: str
    devices: Sequence[int]
    assigned_at: str
    started_at: str | None
    ended_at: str | None
    cause: Cause | None
    reason: str | None
    exit_code: int | None
    signal: int | None
    cpu_time_s: float | None
    peak_memory_mb: int | None
    mem_limit_mb: int | None = None
    """What it was held to; null: nothing."""
    gpu_busy_s: float | None = None
    """How long its GPUs were busy, added up; null if nobody measured."""
    wait_s: float | None = None
    """How long its task waited for it; null while it runs, as the next two."""
    run_s: float | None = None
    lost_s: float | None = None
    """Of its running time, what was thrown away."""
    use: UseOut | None = None
    """What it did with what it had; null while it runs, and of one that was over at once."""
    kept_tmp: str | None = None
    """Where its node keeps its private /tmp for a while after a failure; null: nowhere."""


class EventOut(msgspec.Struct, kw_only=True):
    """Something that happened, in the order it was committed."""

    seq: int
    at: str
    kind: str
    job_id: int
    task_index: int | None
    user_id: str
    data: Mapping[str, Any] | None


class JobOut(ReproducibleOut, kw_only=True):
    """A job now. What the caller may not know is null."""

    job_id: int
    tenant_id: str
    user_id: str
    name: str
    command: Sequence[str] | str | None
    image: str | None
    image_digest: str | None
    """What runs: as the registry knows it, or by the id of an image that only some nodes have. Null: whatever
    the name means when it starts."""
    mounts: Sequence[str] | None
    shm_size_mb: int | None
    read_only: bool
    network: str | None
    pull: Pull | None
    ignore_entrypoint: bool
    container_cwd: str | None
    starting_note: str | None = None
    """While it starts: what it is about, if its node said so."""
    env: Mapping[str, str] | None
    secret_env: Mapping[str, str] | None
    """By where their values are found, never the values."""
    cwd: str | None
    cpu_request: int | float
    mem_request_mb: int
    cpu_limit: int | float | None
    """What it may use at most; null: as much as there is."""
    mem_limit_mb: int | None
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
    priority_class: PriorityClass
    priority: int
    time_limit_s: int | None
    max_wait_s: int | None
    requeue: bool
    once: bool
    pty: bool
    shared_tmp: bool
    """Whether its tasks use their node's own /tmp, where others have a private one."""
    tasks: int
    """How many it has."""
    tasks_per_node: int | None
    """At most so many of them on one node; with `nodes`, exactly so many."""
    nodes: int | None
    """On how many nodes it fills so much; None: on as many as it takes."""
    topology: str | None
    gang: bool
    """Whether they start together."""
    fail_together: bool
    task_counts: Mapping[Status, int]
    """How many of them are in each status."""
    on_return: OnReturn
    grace_s: int | None
    stop_signal: str | None
    """What it gets before SIGKILL; null: SIGTERM."""
    warn_signal: str | None
    """What it gets before its time limit."""
    warn_s: int | None
    """How long before."""
    warn_main: bool
    """Only its main process gets it."""
    dialect: DialectName | None
    """The language that it came in, if that was not tgpu's own."""
    annotations: Mapping[str, str] | None
    """What was said there."""
    status: Status
    cause: Cause | None
    reason: str | None
    exit_code: int | None
    cancel_requested_by: str | None
    assigned_node_id: str | None
    devices: Sequence[int]
    attempt_count: int
    submitted_at: str
    started_at: str | None
    ended_at: str | None
    giving_way: bool = False
    """Whether it is being stopped so that another job can start."""
    expected_start: str | None = None
    """This and the next two: of a pending job, if the caller asked with `expected_start=true`."""
    start_interval: StartIntervalOut | None = None
    no_expected_start: str | None = None
    """Why no start can be expected, such as: it is held."""
    last_saved_at: str | None = None
    """When it last saved its work, as far as it said so. Of one of several tasks: task_list says it."""
    held: bool
    """Whether it waits until its tenant's quota admits it."""
    groups: Sequence[GroupOut] | UnsetType = UNSET
    """Of a job whose tasks are not all alike. What stands beside it (`command`, `gpu_request` …) is that of
    the first group alone."""
    task_list: Sequence[TaskOut] | UnsetType = UNSET
    """The first ones of several; GET /jobs/{job_id}/tasks has all."""
    attempts: Sequence[AttemptOut] | UnsetType = UNSET
    advice: Sequence[str] | UnsetType = UNSET
    """What to ask for next time, by what it used."""
    events: Sequence[EventOut] | UnsetType = UNSET
    actions: Sequence[JobAction] | UnsetType = UNSET
    """With `actions`: what the caller may do with it now."""
    tmp_note: str | UnsetType = UNSET
    """Only in the answer to a submission: what its submitter should know of its /tmp."""


def job_out(job: Job, sight: Sight) -> JobOut:
    spec = job.spec
    group = spec.groups[0]
    request, container = group.request, group.container
    known = sight is not Sight.OUTLINE
    return JobOut(
        job_id=job.job_id,
        tenant_id=spec.tenant_id,
        user_id=spec.user,
        name=spec.name,
        command=group.command if known else None,
        image=container.image if container and known else None,
        image_digest=container.digest if container and known else None,
        mounts=[str(mount) for mount in container.mounts] if container and known else None,
        shm_size_mb=container.shm_mib if container else None,
        read_only=container is not None and container.read_only,
        network=container.network if container else None,
        pull=container.pull if container else None,
        ignore_entrypoint=container is not None and container.ignores_entrypoint,
        container_cwd=container.cwd if container and known else None,
        env=_env(group.env, sight),
        secret_env=group.secret_env if known else None,
        cwd=group.cwd if known else None,
        cpu_request=decimal(request.cpu_milli),
        mem_request_mb=request.memory_mib,
        cpu_limit=decimal(group.cpu_most_milli) if group.cpu_most_milli else None,
        mem_limit_mb=group.memory_most_mib or None,
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
        priority_class=spec.priority_class,
        priority=spec.priority,
        time_limit_s=spec.time_limit_s,
        max_wait_s=spec.max_wait_s,
        requeue=spec.requeue,
        once=spec.once,
        pty=spec.pty,
        shared_tmp=spec.shared_tmp,
        tasks=spec.task_count,
        tasks_per_node=None if spec.gang is None else spec.gang.per_node,
        nodes=None if spec.gang is None else spec.gang.nodes,
        topology=None if spec.gang is None else spec.gang.topology,
        gang=spec.gang is not None,
        fail_together=spec.fail_together,
        task_counts=job.task_counts,
        on_return=spec.on_return,
        grace_s=spec.grace_s,
        stop_signal=spec.stop_signal,
        warn_signal=None if spec.warn is None else spec.warn.signal,
        warn_s=None if spec.warn is None else spec.warn.before_s,
        warn_main=spec.warn is not None and spec.warn.main,
        dialect=None if spec.dialect is None else spec.dialect.name,
        annotations=spec.dialect.annotations if spec.dialect is not None and known else None,
        status=job.status,
        cause=job.cause,
        reason=reason_of(job) if known else None,
        exit_code=job.exit_code if known else None,
        cancel_requested_by=job.cancel_by if known else None,
        assigned_node_id=job.node_id,
        devices=job.devices,
        attempt_count=job.attempts,
        submitted_at=rfc3339(job.submitted_ms),
        started_at=optional_rfc3339(job.started_ms),
        ended_at=optional_rfc3339(job.ended_ms),
        held=job.held,
        groups=[group_out(each, sight) for each in spec.groups] if len(spec.groups) > 1 else UNSET,
        **msgspec.structs.asdict(series_out(job)),
        **reproducible_out(job, known=known),
    )


def whole_job_out(  # noqa: PLR0917  all that there is of it
    job: Job,
    attempts: Sequence[Attempt],
    events: Sequence[Event],
    sight: Sight,
    used: Sequence[Usage],
    tasks: Sequence[TaskView],
) -> JobOut:
    """`tasks`: the first ones."""
    out = job_out(job, sight)
    if job.spec.task_count > 1:
        out.task_list = [task_out(job, task, sight) for task in tasks]
    elif tasks and sight is not Sight.OUTLINE:
        out.last_saved_at = optional_rfc3339(tasks[0].checkpoint_ms)
    out.attempts = attempts_out(job, attempts, used, sight)
    out.advice = advice_of(job, attempts) if sight is not Sight.OUTLINE else []
    out.events = [event_out(event, sight) for event in events]
    out.giving_way = any(
        attempt.state is AttemptState.STOPPING and attempt.stop_cause is Cause.PREEMPTED
        for attempt in attempts
    )
    return out


def attempts_out(
    job: Job, attempts: Sequence[Attempt], used: Sequence[Usage], sight: Sight
) -> list[AttemptOut]:
    by_id = {spent.attempt_id: spent for spent in used}
    shown = [attempt_out(attempt, sight, job.spec.time_limit_s) for attempt in attempts]
    for attempt, out in zip(attempts, shown, strict=True):
        if (spent := by_id.get(attempt.attempt_id)) is not None:
            out.wait_s, out.run_s, out.lost_s = (
                spent.wait_ms / 1000,
                spent.run_ms / 1000,
                spent.lost_ms / 1000,
            )
    return shown


def attempt_out(attempt: Attempt, sight: Sight, time_limit_s: int | None) -> AttemptOut:
    ended, known = attempt.exit, sight is not Sight.OUTLINE
    told = ended if known else None
    return AttemptOut(
        attempt_id=str(attempt.attempt_id),
        task_index=attempt.attempt_id.task_index,
        number=attempt.attempt_id.number,
        status=attempt.state,
        node_id=attempt.node_id,
        devices=attempt.devices,
        assigned_at=rfc3339(attempt.assigned_ms),
        started_at=optional_rfc3339(attempt.started_ms),
        ended_at=rfc3339(ended.ended_ms) if ended else None,
        cause=ended.cause if ended else attempt.stop_cause,
        reason=in_words(told, attempt.stop_by, time_limit_s) if told else None,
        exit_code=told.exit_code if told else None,
        signal=told.signal if told else None,
        cpu_time_s=told.cpu_ms / 1000 if told else None,
        peak_memory_mb=told.peak_memory_mib if told else None,
        mem_limit_mb=told.memory_limit_mib if told else None,
        gpu_busy_s=None if told is None or told.gpu_ms is None else told.gpu_ms / 1000,
        use=use_out(told.use) if told else None,
        kept_tmp=(told.kept_tmp or None) if told else None,
    )


def event_out(event: Event, sight: Sight) -> EventOut:
    return EventOut(
        seq=event.seq,
        at=rfc3339(event.at_ms),
        kind=event.kind,
        job_id=event.job_id,
        task_index=event.task_index,
        user_id=event.user,
        data=event.data if sight is not Sight.OUTLINE else None,
    )


def _env(env: Mapping[str, str], sight: Sight) -> Mapping[str, str] | None:
    if sight is Sight.WHOLE:
        return env
    return masked(dict(env)) if sight is Sight.MASKED else None
