"""Judges how a job that waits is to be changed: the specification that it has then."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET

from tgpu.api.edge import decimal
from tgpu.api.edit_form import LIMIT_FIELDS, REQUEST_FIELDS, EditAsked
from tgpu.api.image_rules import on_nodes_with_an_engine
from tgpu.api.job_form import JobAsked
from tgpu.api.job_rules import Defaults, spec_of
from tgpu.api.problems import unprocessable
from tgpu.api.timing_rules import moment_ms
from tgpu.domain.index_set import MAX_INDICES
from tgpu.domain.job import Group, JobSpec
from tgpu.domain.series import Mode
from tgpu.domain.timing import Timing

_PLAIN = ("name", "priority", "priority_class", "time_limit_s", "max_wait_s")


def changes_of(asked: EditAsked) -> dict[str, Any]:
    """What is said, by field. Raises ProblemError."""
    said = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
    if not said:
        raise unprocessable("time_limit_s", "time_limit_s, or whatever else is to be changed, is missing")
    return said


def edited(spec: JobSpec, said: Mapping[str, Any], defaults: Defaults) -> JobSpec:
    """Raises ProblemError."""
    of_request = [name for name in said if name in REQUEST_FIELDS or name in LIMIT_FIELDS]
    if of_request and len(spec.groups) > 1:
        raise unprocessable(
            of_request[0],
            f"{of_request[0]} cannot be changed of a job of several groups: cancel it and submit it anew",
        )
    if "at_once" in said:
        spec = _paced(spec, said["at_once"])
    if is_only_paced(said):
        return spec
    judged = _judged(spec, said, defaults)
    plain = {name: getattr(judged, name) for name in _PLAIN if name in said}
    groups = (_group(spec.groups[0], judged.groups[0], of_request),) if of_request else spec.groups
    return replace(spec, groups=groups, timing=_timing(spec.timing, said), **plain)


def is_only_paced(said: Mapping[str, Any]) -> bool:
    """Whether nothing is changed but how many are live at once: that asks for nothing more, so no terms that
    may be new since are in its way."""
    return set(said) == {"at_once"}


def can_be_paced(spec: JobSpec) -> bool:
    return spec.series is not None and spec.series.mode is not Mode.WORK_QUEUE


def _judged(spec: JobSpec, said: Mapping[str, Any], defaults: Defaults) -> JobSpec:
    """By the rules of a submission: those of its fields that are said, beside what they are judged by."""
    request, group = spec.groups[0].request, spec.groups[0]
    present: dict[str, Any] = {
        "cpu_request": decimal(request.cpu_milli),
        "mem_request_mb": request.memory_mib,
        "gpu_request": decimal(request.gpu_milli),
        "gpu_memory_mb": request.gpu_memory_mib,
        "gpu_type": request.gpu_type,
        "exclusive": request.exclusive,
        "cpu_limit": None if group.cpu_limit_milli is None else decimal(group.cpu_limit_milli),
        "mem_limit_mb": group.memory_limit_mib,
        "time_limit_s": spec.time_limit_s,
    }
    if spec.warn is not None:
        present |= {"warn_signal": spec.warn.signal, "warn_s": spec.warn.before_s}
    if said.get("name") == "":
        raise unprocessable("name", "name must not be empty")
    given = {name: value for name, value in said.items() if name not in _APART}
    asked = JobAsked(command="true", **(present | given))
    return spec_of(asked, spec.user, group.cwd, defaults, spec.tenant_id, spec.priority_class)


def _group(group: Group, judged: Group, names: list[str]) -> Group:
    fields = [REQUEST_FIELDS[name] for name in names if name in REQUEST_FIELDS]
    request = replace(group.request, **{field: getattr(judged.request, field) for field in fields})
    if group.container is not None:
        request = on_nodes_with_an_engine(request)
    return replace(
        group,
        request=request,
        cpu_limit_milli=judged.cpu_limit_milli,
        memory_limit_mib=judged.memory_limit_mib,
    )


_OF_TIMING = ("begin_at", "deadline_at", "requeue_on_timeout")
_APART = (*_OF_TIMING, "at_once")
"""What is judged by rules of its own."""


def _paced(spec: JobSpec, at_once: int | None) -> JobSpec:
    series = spec.series
    if series is None or not can_be_paced(spec):
        raise unprocessable(
            "at_once", "at_once can be changed of an array, and of a job of completions; this one is neither"
        )
    if at_once is not None and not 1 <= at_once <= MAX_INDICES:
        raise unprocessable(
            "at_once", f"at_once must be from 1 to {MAX_INDICES}; got {at_once}; to let none run, suspend it"
        )
    return replace(spec, series=replace(series, at_once=at_once))


def _timing(timing: Timing | None, said: Mapping[str, Any]) -> Timing | None:
    now = timing or Timing()
    if "begin_at" in said:
        now = replace(now, begin_ms=_moment("begin_at", said))
    if "deadline_at" in said:
        now = replace(now, deadline_ms=_moment("deadline_at", said))
    if "requeue_on_timeout" in said:
        now = replace(now, again_on_timeout=said["requeue_on_timeout"])
    return None if now == Timing() else now


def _moment(name: str, said: Mapping[str, Any]) -> int | None:
    return None if said[name] is None else moment_ms(name, said[name])
