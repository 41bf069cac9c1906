"""What attempts made of what they were given, as callers see it: sums, their course, and advice."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from tgpu.api.edge import optional_decimal, optional_rfc3339, rfc3339
from tgpu.domain.job import Attempt, Job
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.right_sizing import Run, advice
from tgpu.domain.use import Use
from tgpu.protocol.use import MEANS, PEAK, SECONDS, SUMS, UseFile, doubles

_MIB = 1 << 20
_DIGITS = 3


class UseOut(msgspec.Struct, kw_only=True):
    """What an attempt used; null where nobody could tell."""

    measured_s: int | None
    """For how long it was looked at."""
    cpu_mean: int | float | None
    """CPUs, over its whole time."""
    cpu_peak: int | float | None
    throttled_percent: int | None
    """How much of its time it was held back by its limit of CPUs."""
    memory_peak_mb: int | None
    """Without files that the kernel would have let go of."""
    gpus_used: int | None
    """On how many of its devices it was ever seen to do something."""
    gpu_memory_peak_mb: int | None
    """On the fullest of its devices."""
    disk_read_mb: float | None
    disk_written_mb: float | None
    net_received_mb: float | None
    net_sent_mb: float | None


class CourseOut(msgspec.Struct, kw_only=True):
    """How an attempt's use went. `columns` are of equal length, a value for each stretch of its time, which
    follow each other from its start; null where nobody could tell."""

    attempt_id: str
    status: AttemptState
    node_id: str
    started_at: str
    measured_at: str | None
    """Up to when."""
    step_s: float
    """About how long a stretch is; twice as long whenever there would be more than 360."""
    cpu_time_s: float
    gpu_busy_s: float | None
    throttled_percent: int | None
    latest: Mapping[str, float]
    """What the last look told; `seconds` is since the one before it."""
    columns: Mapping[str, Sequence[float | None]]


def use_out(use: Use | None) -> UseOut | None:
    if use is None:
        return None
    return UseOut(
        measured_s=use.measured_s,
        cpu_mean=optional_decimal(use.cpu_mean_milli),
        cpu_peak=optional_decimal(use.cpu_peak_milli),
        throttled_percent=use.throttled_percent,
        memory_peak_mb=use.memory_peak_mib,
        gpus_used=use.gpus_used,
        gpu_memory_peak_mb=use.gpu_memory_peak_mib,
        disk_read_mb=_megabytes(use.disk_read_bytes),
        disk_written_mb=_megabytes(use.disk_written_bytes),
        net_received_mb=_megabytes(use.net_received_bytes),
        net_sent_mb=_megabytes(use.net_sent_bytes),
    )


def course_out(attempt: Attempt, file: UseFile) -> CourseOut:
    columns = {_NAMES[name]: _column(name, data) for name, data in file.columns.items() if name in _NAMES}
    return CourseOut(
        attempt_id=str(attempt.attempt_id),
        status=attempt.state,
        node_id=attempt.node_id,
        started_at=rfc3339(file.started_ms),
        measured_at=optional_rfc3339(file.measured_ms or None),
        step_s=file.step_s,
        cpu_time_s=file.cpu_us / 1_000_000,
        gpu_busy_s=None if file.gpu_busy_ms is None else file.gpu_busy_ms / 1000,
        throttled_percent=round(100 * file.throttled / file.periods) if file.periods else None,
        latest={_NAMES[name]: _scaled(name, value) for name, value in file.latest.items() if name in _NAMES},
        columns=columns,
    )


def advice_of(job: Job, attempts: Sequence[Attempt]) -> list[str]:
    """By the last attempt of each task; in a job of several groups each sentence says whose it is."""
    last = {attempt.attempt_id.task_index: attempt for attempt in attempts}
    runs: dict[int, list[Run]] = {}
    for index, attempt in last.items():
        if attempt.exit is not None:
            run = Run(attempt.exit, len(attempt.devices))
            runs.setdefault(job.spec.group_index_of(index), []).append(run)
    several = len(job.spec.groups) > 1
    return [
        f"{job.spec.groups[index].name}: {sentence}" if several else sentence
        for index, ran in sorted(runs.items())
        for sentence in advice(job.spec.groups[index], job.spec.time_limit_s, ran)
    ]


def _outside(name: str) -> str:
    return name.replace("cpu_milli", "cpu").replace("_mib", "_mb").replace("_bytes", "_mb")


_NAMES = {name: _outside(name) for name in (SECONDS, *MEANS, *(f"{mean}{PEAK}" for mean in MEANS), *SUMS)}
"""A column as it is kept, and as it is told."""


def _column(name: str, data: bytes) -> list[float | None]:
    return [None if math.isnan(value) else _scaled(name, value) for value in doubles(data)]


def _scaled(name: str, value: float) -> float:
    if name.startswith("cpu_milli"):
        return round(value / 1000, _DIGITS)
    return round(value / _MIB if name in SUMS else value, _DIGITS)


def _megabytes(size: int | None) -> float | None:
    return None if size is None else round(size / _MIB, _DIGITS)
