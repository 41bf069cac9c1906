"""Plan preview of a submission: what a dry run answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tgpu.api.access import known_jobs, shown_tenants
from tgpu.api.dependency_preview import Dependency, dependencies
from tgpu.api.endpoint import Call
from tgpu.api.ports import NoLeaderError
from tgpu.api.priority_classes import without_forbidden_advice
from tgpu.api.problems import ProblemError
from tgpu.api.quota_form import QuotaOut, quota_out
from tgpu.api.start_interval import StartIntervalOut, moment_out
from tgpu.api.why_view import AdviceOut, HolderOfNeeded, ReasonOut, WhyOut, jobs_named, why_out
from tgpu.domain.command_signature import signature_of
from tgpu.domain.ids import TaskId
from tgpu.domain.job import JobSpec, TaskBrief
from tgpu.domain.lifecycle import Status
from tgpu.domain.preview import MAX_PREVIEWED_JOBS, HypotheticalJob, StartPreview, Starts
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import time_in_words
from tgpu.domain.timing import Timing
from tgpu.domain.views import Reason, Why
from tgpu.store.port import TrialJob, TrialSubmission

MOST_TASKS = 2000
"""Of all jobs of a preview: the first ones are planned."""
MOST_IN_GANGS = 500
"""Of these: a gang is planned whole or not at all, and one of 500 tasks takes 0.4 s on 10,000 nodes."""
_MOST_NAMED = 3
_HOUR_S = 3600


class PlaceOut(msgspec.Struct, kw_only=True):
    """Where one task would run."""

    node_id: str
    devices: Sequence[int]
    """GPUs, as the node numbers them."""


class JobPreview(msgspec.Struct, kw_only=True):
    """What would become of one job."""

    name: str
    user_id: str
    tenant_id: str
    priority_class: PriorityClass
    time_limit_s: int | None
    tasks: int
    """How many tasks the job has."""
    held: bool
    """Whether it would wait for its tenant's quota."""
    starts: Starts
    """`now`; `at`: see `starts_at`; `waits`: no time can be estimated; `never`."""
    summary: str
    """The same for people, in one sentence."""
    starts_at: str | None = None
    starts_in_s: int | None = None
    """The same in seconds from now."""
    is_lower_bound: bool = False
    """It will not start before `starts_at`, and possibly later."""
    start_interval: StartIntervalOut | None = None
    """When it is expected to start, with an interval, if that can be computed in time."""
    starting_tasks: int = 0
    """How many of its tasks would start now."""
    places: list[PlaceOut] = []
    """Of the first tasks: where they would start now, or are expected to at `starts_at`."""
    jobs_ahead: int = 0
    """Pending jobs that are served first: before it in its queue, and of higher classes."""
    preempts: int = 0
    """How many jobs would be preempted for it."""
    preempted_jobs: list[int] = []
    """Those of them that the caller may see."""
    position: int | None = None
    estimate: str | None = None
    """The expected start for people, and how sure it is."""
    reasons: list[ReasonOut] = []
    holders: list[HolderOfNeeded] = []
    advice: AdviceOut | None = None
    """The smallest change with which it would start now."""


class RefusalOut(msgspec.Struct, kw_only=True):
    """Why a submission would be refused: the problem details that it would be answered with."""

    status: int
    type: str
    detail: str
    field: str | None
    """The field to blame, if there is one."""


class SubmissionPreview(msgspec.Struct, kw_only=True):
    """What a submission would lead to, by the state of this moment. Nothing was stored."""

    dry_run: bool = True
    job_count: int
    jobs: list[JobPreview]
    """The first 20 of them."""
    planned: bool
    """Whether the scheduler answered; without it, `starts` is `waits` for every job."""
    warnings: list[str]
    """What a submission would warn of."""
    quotas: list[QuotaOut]
    """Of the tenants that would be charged, as far as the caller may see them: their use afterwards."""
    refusal: RefusalOut | None = None
    """With `dry_run=report`: why it would be refused."""


def refused(problem: ProblemError) -> SubmissionPreview:
    field = problem.extras.get("field")
    refusal = RefusalOut(
        status=problem.status,
        type=f"urn:tgpu:problem:{problem.kind}",
        detail=problem.detail,
        field=str(field) if field else None,
    )
    return SubmissionPreview(job_count=0, jobs=[], planned=False, warnings=[], quotas=[], refusal=refusal)


PREVIEW_EXAMPLE: Mapping[str, Any] = {
    "dry_run": True,
    "job_count": 1,
    "jobs": [
        {
            "name": "train",
            "user_id": "ann",
            "tenant_id": "default",
            "priority_class": "default",
            "time_limit_s": 3600,
            "tasks": 1,
            "held": False,
            "starts": "now",
            "summary": "Starts now on ws1 with GPU 2.",
            "starts_at": "2026-01-31T14:05:00.000Z",
            "starts_in_s": 0,
            "is_lower_bound": False,
            "start_interval": None,
            "starting_tasks": 1,
            "places": [{"node_id": "ws1", "devices": [2]}],
            "jobs_ahead": 0,
            "preempts": 0,
            "preempted_jobs": [],
            "position": 1,
            "estimate": "starts now on ws1",
            "reasons": [],
            "holders": [],
            "advice": None,
        }
    ],
    "planned": True,
    "warnings": [],
    "quotas": [],
    "refusal": None,
}


async def submission_preview(
    call: Call, specs: Sequence[JobSpec], tried: TrialSubmission, warnings: list[str]
) -> SubmissionPreview:
    shown, now_ms = list(zip(specs, tried.jobs, strict=True))[:MAX_PREVIEWED_JOBS], call.services.now_ms()
    found = await dependencies(call, specs[:MAX_PREVIEWED_JOBS])
    previews, planned = await _planned(call, shown, found, now_ms)
    previews = [
        replace(each, why=await without_forbidden_advice(call, each.why, spec.tenant_id))
        for (spec, _), each in zip(shown, previews, strict=True)
    ]
    named = {job_id for each in previews for job_id in _jobs_in(each)}
    known = await known_jobs(call, named) if named else ()
    visible = await shown_tenants(call)
    quotas = [each for each in tried.tenants if visible is None or each.tenant_id in visible]
    reserved = await call.services.store.reserved_gpu_ms() if quotas else {}
    return SubmissionPreview(
        job_count=len(specs),
        jobs=[
            _job_preview(spec, trial, each, frozenset(known), now_ms)
            for (spec, trial), each in zip(shown, previews, strict=True)
        ],
        planned=planned,
        warnings=warnings,
        quotas=[quota_out(tenant, reserved) for tenant in quotas],
    )


async def _planned(
    call: Call, jobs: Sequence[tuple[JobSpec, TrialJob]], found: Sequence[Dependency | None], now_ms: int
) -> tuple[list[StartPreview], bool]:
    """Of each job, and whether the scheduler answered. It is asked of jobs that capacity and order decide on;
    holds, dependencies and begin times are known without it."""
    previews = [
        _ineligible(spec, dependency, now_ms) for (spec, _), dependency in zip(jobs, found, strict=True)
    ]
    asked, hypothetical, left, left_in_gangs = [], [], MOST_TASKS, MOST_IN_GANGS
    for place, (spec, trial) in enumerate(jobs):
        in_gang = 0 if spec.gang is None else spec.task_count
        if previews[place] is None and in_gang > left_in_gangs:
            previews[place] = _too_large(spec)
        if previews[place] is None:
            asked.append(place)
            hypothetical.append(hypothetical_job(spec, trial, now_ms, max(1, left)))
            left -= sum(number for _, number in hypothetical[-1].groups)
            left_in_gangs -= in_gang
    planned, answers = True, []
    try:
        answers = list(await call.services.live.preview(hypothetical)) if hypothetical else []
    except NoLeaderError as error:
        planned, text = False, str(error)
        answers = [StartPreview(Starts.WAITS, Why(0, True, f"waits: {text}"))] * len(asked)
    by_place = dict(zip(asked, answers, strict=True))
    return [by_place[place] if each is None else each for place, each in enumerate(previews)], planned


def hypothetical_job(spec: JobSpec, trial: TrialJob, now_ms: int, most_tasks: int) -> HypotheticalJob:
    """As the store would tell the scheduler of it."""
    timing = None if spec.timing is None else replace(spec.timing, unmet=False)
    task = TaskBrief(
        TaskId(0, 0),
        Status.PENDING,
        trial.requests[0],
        spec.user,
        spec.tenant_id,
        spec.name,
        spec.priority_class,
        spec.priority,
        now_ms,
        0,
        spec.time_limit_s,
        spec.max_wait_s,
        spec.requeue,
        spec.grace_s,
        None,
        spec.gang_now(0),
        held=trial.held,
        eligible_ms=0 if timing is None else timing.begin_ms or 0,
        timing=timing,
        retries=spec.retries,
        command=signature_of(spec),
    )
    if spec.series is not None:
        return HypotheticalJob(task, ((trial.requests[0], min(trial.tasks, most_tasks)),))
    numbers = [group.tasks for group in spec.groups]
    if spec.gang is None:
        numbers = [min(number, most_tasks) for number in numbers]
    return HypotheticalJob(task, tuple(zip(trial.requests, numbers, strict=True)))


def _ineligible(spec: JobSpec, dependency: Dependency | None, now_ms: int) -> StartPreview | None:
    """None: nothing but capacity, quota and order keeps it from starting."""
    timing, reasons = spec.timing or Timing(), []
    if dependency is not None and dependency.never:
        reason = Reason("dependency-failed", f"can never run: {dependency.text}")
        return StartPreview(Starts.NEVER, Why(0, True, reason.text, (reason,)))
    if timing.held_by is not None:
        reasons.append(Reason("held", "is submitted held: it starts once it is released"))
    if timing.suspended_by is not None:
        reasons.append(Reason("suspended", "is submitted suspended: it starts once it is resumed"))
    if dependency is not None:
        reasons.append(Reason("needs", dependency.text, {"job_ids": list(dependency.job_ids)}))
    begin_ms = timing.begin_ms if timing.begin_ms is not None and timing.begin_ms > now_ms else None
    if begin_ms is not None:
        wait_s = -(-(begin_ms - now_ms) // 1000)
        reasons.append(Reason("begin", "is not to start before its begin time", {"eligible_in_s": wait_s}))
    if not reasons:
        return None
    why = Why(0, True, f"waits: {reasons[0].text}", tuple(reasons))
    if begin_ms is None or len(reasons) > 1:
        return StartPreview(Starts.WAITS, why)
    return StartPreview(Starts.AT, replace(why, starts_at_ms=begin_ms), is_lower_bound=True)


def _too_large(spec: JobSpec) -> StartPreview:
    """A gang starts whole, so a part of it says nothing; all of it would keep the scheduler from its work."""
    text = (
        f"a preview plans up to {MOST_IN_GANGS:,} tasks of gangs, and all {spec.task_count:,} of this one "
        "start together: submit it to see when it starts"
    )
    return StartPreview(Starts.WAITS, Why(0, True, text, (Reason("too-large-to-preview", text),)))


def _jobs_in(preview: StartPreview) -> set[int]:
    holders = {holder.job_id for holder in preview.why.holders}
    return holders | jobs_named(preview.why.reasons) | set(preview.preempts)


def _job_preview(
    spec: JobSpec, trial: TrialJob, preview: StartPreview, known: frozenset[int], now_ms: int
) -> JobPreview:
    why = why_out(preview.why, known)
    at_ms = preview.why.starts_at_ms if preview.starts in (Starts.NOW, Starts.AT) else None
    in_s = None if at_ms is None else max(0, -(-(at_ms - now_ms) // 1000))
    preempted = [job_id for job_id in preview.preempts if job_id in known]
    return JobPreview(
        name=spec.name,
        user_id=spec.user,
        tenant_id=spec.tenant_id,
        priority_class=spec.priority_class,
        time_limit_s=spec.time_limit_s,
        tasks=spec.task_count,
        held=trial.held,
        starts=preview.starts,
        summary=_Sentence(spec, preview, why, in_s).text(),
        starts_at=None if at_ms is None else moment_out(at_ms),
        starts_in_s=in_s,
        is_lower_bound=preview.is_lower_bound,
        start_interval=why.start_interval,
        starting_tasks=preview.starting_tasks,
        places=[PlaceOut(node_id=node_id, devices=devices) for node_id, devices in preview.places],
        jobs_ahead=preview.jobs_ahead,
        preempts=len(preview.preempts),
        preempted_jobs=preempted,
        position=why.position,
        estimate=why.estimate,
        reasons=why.reasons,
        holders=why.holders,
        advice=why.advice,
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    """When and where a job would start, for people."""

    spec: JobSpec
    preview: StartPreview
    why: WhyOut
    in_s: int | None

    def text(self) -> str:
        match self.preview.starts:
            case Starts.NOW:
                return f"Starts now{self._part()}{self._where()}{self._preempting()}."
            case Starts.AT:
                verb = "Starts not before" if self.preview.is_lower_bound else "Starts"
                when = f"{verb} {_time_from_now(self.in_s or 0, exact=self.preview.is_lower_bound)}"
                return f"{when}{self._where()}{self._ahead()}{self._preempting()}."
            case _:
                said = self.why.summary
                return f"{said[:1].upper()}{said[1:]}{self._ahead()}."

    def _part(self) -> str:
        count, starting = self.spec.task_count, self.preview.starting_tasks
        return "" if starting >= count else f" with {starting:,} of {count:,} tasks"

    def _where(self) -> str:
        nodes = list(dict.fromkeys(node_id for node_id, _ in self.preview.places))
        if not nodes:
            return ""
        named = ", ".join(nodes[:_MOST_NAMED])
        more = f" and {len(nodes) - _MOST_NAMED} more nodes" if len(nodes) > _MOST_NAMED else ""
        devices = self.preview.places[0][1] if len(self.preview.places) == 1 else ()
        gpus = f" with GPU {', '.join(map(str, devices))}" if devices else ""
        return f" on {named}{more}{gpus}"

    def _ahead(self) -> str:
        count = self.preview.jobs_ahead
        return f", behind {count:,} {'job' if count == 1 else 'jobs'}" if count else ""

    def _preempting(self) -> str:
        count = len(self.preview.preempts)
        return f", after preempting {count:,} {'job' if count == 1 else 'jobs'}" if count else ""


def _time_from_now(seconds: int, *, exact: bool) -> str:
    """Rounded to what people say: `in about 2h`."""
    step = 60 if seconds < _HOUR_S else 300 if seconds < 24 * _HOUR_S else _HOUR_S
    rounded = seconds if seconds < 60 else round(seconds / step) * step  # noqa: PLR2004  below a minute, as it is
    return f"{time_in_words(rounded)} from now" if exact else f"in about {time_in_words(rounded)}"
