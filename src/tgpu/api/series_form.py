"""What a job says of its many tasks and of their failures, as callers write it and as they see it."""

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tgpu.api.timing_form import TimingAsked, TimingOut, timing_out
from tgpu.domain.index_set import MAX_INDICES
from tgpu.domain.job import Job
from tgpu.domain.lifecycle import Cause
from tgpu.domain.quantities import MAX_SECONDS
from tgpu.domain.retries import FailureAction, FailureRule, Retries
from tgpu.domain.series import Mode

MAX_FAILURES = 2**31 - 1
MAX_FAILURE_RULES = 60  # Kubernetes allows 20, each of which is up to three of these
CompletionMode = Literal["Indexed", "NonIndexed"]


def _count(text: str, low: int, high: int) -> Meta:
    return Meta(description=text, extra_json_schema={"examples": [None], "minimum": low, "maximum": high})


class RuleAsked(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What to do about failures that are like this: all that it says must hold, and it says something."""

    action: FailureAction
    exit_codes: list[int] = []
    not_exit_codes: Annotated[list[int], Meta(description="Every code but these, and but 0.")] = []
    signals: list[str | int] = []
    causes: list[Cause] = []


class SeriesAsked(TimingAsked, forbid_unknown_fields=True, kw_only=True):
    """A part of a job."""

    array: Annotated[
        str | None,
        Meta(
            description="One task for each of these indices, with an index list, a step, and how many run at "
            "once: `0-999%50`, `1,3,5-9:2`. Each finds its own in TGPU_ARRAY_INDEX.",
            extra_json_schema={"examples": [None]},
        ),
    ] = None
    completions: Annotated[
        int | None, _count("So many tasks must succeed, `parallelism` of them at once.", 1, MAX_INDICES)
    ] = None
    parallelism: Annotated[
        int | None,
        _count(
            "How many run at once, by default 1, and no more than completions. Without completions: so many "
            "share a queue of work, which is done once one has succeeded and all have ended. 0: it is "
            "suspended.",
            0,
            MAX_INDICES,
        ),
    ] = None
    completion_mode: Annotated[
        CompletionMode | None,
        Meta(description="With completions: whether each task has an index, in JOB_COMPLETION_INDEX."),
    ] = None
    retries: Annotated[
        int | None,
        _count(
            "How often a failure is tried again, after 10 s, 20 s and so on up to 6 min: of a job, or of "
            "each index of an array. What its node brought about does not count.",
            0,
            MAX_FAILURES,
        ),
    ] = None
    backoff_limit: Annotated[
        int | None,
        _count(
            "The same of all tasks together; then the job has failed. With completions or parallelism by "
            "default 6.",
            0,
            MAX_FAILURES,
        ),
    ] = None
    backoff_limit_per_index: Annotated[
        int | None, _count("The same of each index, which alone has failed then.", 0, MAX_FAILURES)
    ] = None
    max_failures: Annotated[
        int | None,
        _count("Once more tasks than this have failed for good, the others are stopped.", 0, MAX_FAILURES),
    ] = None
    failure_rules: Annotated[
        list[RuleAsked],
        Meta(
            description="What to do about failures; the first rule that matches decides.",
            extra_json_schema={"examples": [[]], "maxItems": MAX_FAILURE_RULES},
        ),
    ] = msgspec.field(default_factory=list)
    active_deadline_s: Annotated[
        int | None,
        _count("So long after its submission the whole job must be over, or has failed.", 1, MAX_SECONDS),
    ] = None
    ttl_after_finished_s: Annotated[
        int | None, _count("So long after its end it need be remembered.", 0, MAX_SECONDS)
    ] = None
    suspend: Annotated[bool, Meta(description="Nothing of it starts before it is resumed.")] = False


class RuleOut(msgspec.Struct, kw_only=True):
    action: FailureAction
    exit_codes: Sequence[int]
    not_exit_codes: Sequence[int]
    signals: Sequence[int]
    causes: Sequence[Cause]


class SeriesOut(TimingOut, kw_only=True):
    """A part of a job."""

    array: str | None
    """The indices of its tasks."""
    at_once: int | None
    """How many of its tasks run at once; null: as many as there is room for."""
    completions: int | None
    parallelism: int | None
    completion_mode: CompletionMode | None
    backoff_limit: int | None
    backoff_limit_per_index: int | None
    max_failures: int | None
    failure_rules: Sequence[RuleOut]
    failure_count: int
    """Of a job of several tasks: how many attempts failed and count."""
    active_deadline_s: int | None
    ttl_after_finished_s: int | None
    suspended_by: str | None
    """Who wants nothing of it to run for now."""


def series_out(job: Job) -> SeriesOut:
    series, retries = job.spec.series, job.spec.retries or Retries()
    mode = None if series is None else series.mode
    parallel = series is not None and mode is not Mode.ARRAY
    return SeriesOut(
        **msgspec.structs.asdict(timing_out(job)),
        array=series.indices.text if series is not None and mode is Mode.ARRAY else None,
        at_once=None if series is None else series.at_once,
        completions=job.spec.task_count if mode in (Mode.INDEXED, Mode.COUNTED) else None,
        parallelism=(series.at_once or job.spec.task_count) if series is not None and parallel else None,
        completion_mode=_MODES.get(mode) if mode is not None else None,
        backoff_limit=retries.limit,
        backoff_limit_per_index=retries.per_index,
        max_failures=retries.max_failures,
        failure_rules=[_rule_out(rule) for rule in retries.rules],
        failure_count=job.failures,
        active_deadline_s=job.spec.active_deadline_s,
        ttl_after_finished_s=job.spec.ttl_after_finished_s,
        suspended_by=None if job.timing is None else job.timing.suspended_by,
    )


_MODES: dict[Mode, CompletionMode] = {Mode.INDEXED: "Indexed", Mode.COUNTED: "NonIndexed"}


def _rule_out(rule: FailureRule) -> RuleOut:
    return RuleOut(
        action=rule.action,
        exit_codes=rule.exit_codes,
        not_exit_codes=rule.not_exit_codes,
        signals=rule.signals,
        causes=rule.causes,
    )
