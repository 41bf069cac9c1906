"""Judges what a job says of its many tasks and of their failures."""

import signal
from dataclasses import replace

from tgpu.api.problems import unprocessable
from tgpu.api.series_form import MAX_FAILURE_RULES, MAX_FAILURES, RuleAsked, SeriesAsked
from tgpu.domain.index_set import MAX_INDICES, IndexSet, parse_array
from tgpu.domain.job import JobSpec
from tgpu.domain.lifecycle import Cause
from tgpu.domain.quantities import MAX_SECONDS, BadQuantityError
from tgpu.domain.retries import FailureAction, FailureRule, Retries
from tgpu.domain.series import Mode, Series
from tgpu.domain.timing import Timing

BACKOFF_LIMIT = 6
"""Of parallel jobs that do not say, as in Kubernetes."""
_MAX_CODE = 255
_NEVER = (Cause.CANCELLED, Cause.WAITED_TOO_LONG, Cause.SUPERSEDED, Cause.GANG_BROKEN, Cause.GANG_RESTARTED)
"""Causes about which there is nothing to decide."""


def with_series(spec: JobSpec, asked: SeriesAsked, by: str) -> JobSpec:
    """The job, of as many tasks as it asks for. `by`: who submits it. Raises ProblemError."""
    series, retries = _series(asked), _retries(asked)
    if series is not None:
        if spec.gang is not None:
            field = "array" if asked.array is not None else "completions"
            raise unprocessable(
                field,
                f"{field} and tasks that start together (nodes, tasks, groups) exclude each other: submit "
                "each gang as a job of its own",
            )
        spec = replace(spec, groups=(replace(spec.groups[0], tasks=series.indices.count),), series=series)
    if retries is not None and spec.gang is not None:
        raise unprocessable(
            "retries", "retries are for single jobs, arrays and parallel jobs; a gang is started anew by hand"
        )
    if series is None and (asked.backoff_limit_per_index, asked.max_failures) != (None, None):
        field = "max_failures" if asked.max_failures is not None else "backoff_limit_per_index"
        raise unprocessable(field, f"{field} is about jobs of many tasks: say array or completions, too")
    if asked.suspend or asked.parallelism == 0:
        spec = replace(spec, timing=replace(spec.timing or Timing(), suspended_by=by))
    return replace(
        spec,
        retries=retries,
        active_deadline_s=_whole("active_deadline_s", asked.active_deadline_s, 1, MAX_SECONDS),
        ttl_after_finished_s=_whole("ttl_after_finished_s", asked.ttl_after_finished_s, 0, MAX_SECONDS),
    )


def _series(asked: SeriesAsked) -> Series | None:
    completions = _whole("completions", asked.completions, 1, MAX_INDICES)
    parallelism = asked.parallelism
    if parallelism is not None and not 0 <= parallelism <= MAX_INDICES:
        raise unprocessable(
            "parallelism",
            f"parallelism must be from 1 to {MAX_INDICES}, or 0 to suspend the job; got {parallelism}",
        )
    if asked.array is not None:
        for field in ("completions", "parallelism", "completion_mode"):
            if getattr(asked, field) is not None:
                raise unprocessable(
                    field, f"array and {field} exclude each other; an array says %N for how many at once"
                )
        try:
            return Series(*parse_array("array", asked.array))
        except BadQuantityError as error:
            raise unprocessable("array", str(error)) from None
    if completions is None:
        if asked.completion_mode is not None:
            raise unprocessable("completion_mode", "completion_mode needs completions: say how many")
        if parallelism is None:
            return None
        return Series(IndexSet.first(parallelism or 1), None, Mode.WORK_QUEUE)
    mode = Mode.INDEXED if asked.completion_mode == "Indexed" else Mode.COUNTED
    return Series(IndexSet.first(completions), min(parallelism or 1, completions), mode)


def _retries(asked: SeriesAsked) -> Retries | None:
    limit = _whole("backoff_limit", asked.backoff_limit, 0, MAX_FAILURES)
    per_index = _whole("backoff_limit_per_index", asked.backoff_limit_per_index, 0, MAX_FAILURES)
    retries = _whole("retries", asked.retries, 0, MAX_FAILURES)
    most = _whole("max_failures", asked.max_failures, 0, MAX_FAILURES)
    parallel = asked.completions is not None or asked.parallelism is not None
    if retries is not None:
        if limit is not None or per_index is not None:
            raise unprocessable("retries", "retries and backoff_limit exclude each other: say one of them")
        if asked.array is not None:
            per_index = retries
        else:
            limit = retries
    if limit is None and per_index is None and parallel:
        limit = BACKOFF_LIMIT
    if len(asked.failure_rules) > MAX_FAILURE_RULES:
        raise unprocessable("failure_rules", f"failure_rules may have at most {MAX_FAILURE_RULES} rules")
    rules = tuple(_rule(at, rule, asked) for at, rule in enumerate(asked.failure_rules))
    if (limit, per_index, most) == (None, None, None) and not rules:
        return None
    return Retries(limit, per_index, rules, most)


def _rule(at: int, rule: RuleAsked, asked: SeriesAsked) -> FailureRule:
    field = f"failure_rules[{at}]"
    if not (rule.exit_codes or rule.not_exit_codes or rule.signals or rule.causes):
        raise unprocessable(
            field,
            f"{field} must say which failures it is about: exit_codes, not_exit_codes, signals or causes",
        )
    for code in (*rule.exit_codes, *rule.not_exit_codes):
        if not 0 <= code <= _MAX_CODE or (code == 0 and code in rule.exit_codes):
            raise unprocessable(field, f"{field}: an exit code of a failure is from 1 to 255; got {code}")
    for cause in rule.causes:
        if cause in _NEVER:
            raise unprocessable(field, f"{field}: {cause} is no failure that a rule can be about")
    alone = asked.array is None and asked.completions is None and asked.parallelism is None
    if rule.action is FailureAction.FAIL_INDEX and alone:
        raise unprocessable(field, f"{field}: fail-index is about jobs of many tasks; write fail-job")
    return FailureRule(
        rule.action,
        tuple(rule.exit_codes),
        tuple(rule.not_exit_codes),
        tuple(_signal(field, each) for each in rule.signals),
        tuple(rule.causes),
    )


def _signal(field: str, given: str | int) -> int:
    text = str(given).strip().upper()
    try:
        if text.isdecimal() and int(text) in signal.valid_signals():  # real-time ones have no names
            return int(text)
        return int(signal.Signals[text if text.startswith("SIG") else f"SIG{text}"])
    except (KeyError, ValueError):
        raise unprocessable(
            field, f"{field}: a signal is a name or a number, such as SEGV or 11; got {str(given)[:40]!r}"
        ) from None


def _whole(field: str, value: int | None, low: int, high: int) -> int | None:
    if value is not None and not low <= value <= high:
        raise unprocessable(field, f"{field} must be from {low} to {high}; got {value}")
    return value
