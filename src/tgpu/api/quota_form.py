"""Quotas as callers write and see them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tgpu.api.edge import GPU_HOUR, decimal, gpu_hours, optional_decimal, optional_gpu_hours
from tgpu.api.problems import unprocessable
from tgpu.domain.node import Node
from tgpu.domain.quantities import (
    MAX_CPU_MILLI,
    MAX_GENERIC,
    MAX_GPU_MILLI,
    MAX_MIB,
    MILLI,
    BadQuantityError,
    milli,
    whole,
)
from tgpu.domain.quota import GENERIC, GPU_MODEL, Amounts, JobLimits, Limits, Named, Period
from tgpu.domain.tenant import Tenant, is_within

MAX_JOBS = 1_000_000_000
MAX_GPU_HOURS = 1_000_000_000
MAX_NAMED = 64
_MAX_MODEL = 100
Number = int | float


def _limit(what: str, high: int) -> Meta:
    return Meta(
        description=f"The most {what}; null: without limit.",
        extra_json_schema={"minimum": 0, "maximum": high},
    )


Cpus = Annotated[Number | None, _limit("CPUs admitted at once", MAX_CPU_MILLI // MILLI)]
Memory = Annotated[Number | None, _limit("MiB of memory admitted at once", MAX_MIB)]
Disk = Annotated[Number | None, _limit("MiB of disk admitted at once", MAX_MIB)]
Gpus = Annotated[Number | None, _limit("GPUs admitted at once", MAX_GPU_MILLI // MILLI)]
Running = Annotated[Number | None, _limit("tasks on nodes at once", MAX_JOBS)]
Waiting = Annotated[Number | None, _limit("tasks that wait at once", MAX_JOBS)]
GpuHours = Annotated[Number | None, _limit("GPU-hours in a period", MAX_GPU_HOURS)]
HoursPeriod = Annotated[Period, Meta(description="Periods begin at midnight UTC.")]
_NAMED = {"examples": [{}], "maxProperties": MAX_NAMED}
GpusOfType = Annotated[
    dict[str, Number | None],
    Meta(
        description="The most GPUs of a model, by a part of its name in small or large letters; null takes a "
        "limit away, what is left out stays.",
        extra_json_schema=_NAMED,
    ),
]
Generic = Annotated[
    dict[str, Number | None],
    Meta(
        description="The most of a named resource; null takes a limit away, what is left out stays.",
        extra_json_schema=_NAMED,
    ),
]


class QuotaPatch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to change; null takes a limit away, what is left out stays."""

    cpu_limit: Cpus | UnsetType = UNSET
    mem_limit_mb: Memory | UnsetType = UNSET
    disk_limit_mb: Disk | UnsetType = UNSET
    gpu_limit: Gpus | UnsetType = UNSET
    gpu_type_limits: GpusOfType | UnsetType = UNSET
    generic_limits: Generic | UnsetType = UNSET
    running_jobs_limit: Running | UnsetType = UNSET
    waiting_jobs_limit: Waiting | UnsetType = UNSET
    gpu_hours_limit: GpuHours | UnsetType = UNSET
    gpu_hours_period: HoursPeriod | UnsetType = UNSET


class QuotaOut(msgspec.Struct, kw_only=True):
    """A tenant's limits and what it uses of them, with everybody below it; a null limit is none."""

    quota_id: str
    tenant_id: str
    cpu_limit: int | float | None
    mem_limit_mb: int | None
    disk_limit_mb: int | None
    gpu_limit: int | float | None
    gpu_type_limits: Mapping[str, int | float]
    generic_limits: Mapping[str, int]
    running_jobs_limit: int | None
    waiting_jobs_limit: int | None
    gpu_hours_limit: int | float | None
    gpu_hours_period: Period
    cpu_used: int | float
    mem_used_mb: int
    disk_used_mb: int
    gpu_used: int | float
    gpu_type_used: Mapping[str, int | float]
    generic_used: Mapping[str, int]
    running_jobs_used: int
    waiting_jobs_used: int
    gpu_hours_used: int | float
    """With what is reserved."""
    gpu_hours_reserved: int | float
    """What running tasks may still take until their time limits."""
    cpu_burst: int | float
    mem_burst_mb: int
    disk_burst_mb: int
    gpu_burst: int | float
    gpu_type_burst: Mapping[str, int | float]
    generic_burst: Mapping[str, int]
    version: int


def limits_after(patch: QuotaPatch, old: Tenant) -> Tenant:
    """Raises ProblemError."""
    try:
        return replace(old, limits=_limits(patch, old.limits), job_limits=_job_limits(patch, old.job_limits))
    except BadQuantityError as error:
        raise unprocessable(str(error).partition(" ")[0], str(error)) from None


def _limits(patch: QuotaPatch, old: Limits) -> Limits:
    def cpus(name: str, value: object) -> int:
        return milli(name, value, MAX_CPU_MILLI)

    return Limits(
        _after("cpu_limit", patch.cpu_limit, old.cpu_milli, cpus),
        _after("mem_limit_mb", patch.mem_limit_mb, old.memory_mib, _mib),
        _after("disk_limit_mb", patch.disk_limit_mb, old.disk_mib, _mib),
        _after("gpu_limit", patch.gpu_limit, old.gpu_milli, _gpus),
        _named(patch, old.named),
    )


def _job_limits(patch: QuotaPatch, old: JobLimits) -> JobLimits:
    return JobLimits(
        _after("running_jobs_limit", patch.running_jobs_limit, old.running, _jobs),
        _after("waiting_jobs_limit", patch.waiting_jobs_limit, old.waiting, _jobs),
        _after("gpu_hours_limit", patch.gpu_hours_limit, old.gpu_ms, _gpu_ms),
        old.period if patch.gpu_hours_period is UNSET else patch.gpu_hours_period,
    )


def _after(
    name: str, value: Number | UnsetType | None, old: int | None, read: Callable[[str, object], int]
) -> int | None:
    if value is UNSET:
        return old
    return None if value is None else read(name, value)


def _mib(name: str, value: object) -> int:
    return whole(name, value, MAX_MIB)


def _gpus(name: str, value: object) -> int:
    return milli(name, value, MAX_GPU_MILLI)


def _jobs(name: str, value: object) -> int:
    return whole(name, value, MAX_JOBS)


def _amount(name: str, value: object) -> int:
    return whole(name, value, MAX_GENERIC)


def _gpu_ms(name: str, value: object) -> int:
    thousandths = milli(name, value, MAX_GPU_HOURS * MILLI)
    return int(Decimal(thousandths) * GPU_HOUR / MILLI)


def gpu_ms_of(name: str, hours: Number | None) -> int | None:
    """Raises ProblemError."""
    try:
        return None if hours is None else _gpu_ms(name, hours)
    except BadQuantityError as error:
        raise unprocessable(name, str(error)) from None


def _named(patch: QuotaPatch, old: Named) -> Named:
    limits = dict(old)
    for field, given, prefix, read in (
        ("gpu_type_limits", patch.gpu_type_limits, GPU_MODEL, _gpus),
        ("generic_limits", patch.generic_limits, GENERIC, _amount),
    ):
        seen: dict[str, str] = {}
        for written, value in {} if given is UNSET else given.items():
            name = prefix + _checked_name(field, written, lower=prefix == GPU_MODEL)
            if name in seen:
                both = f"{seen[name][:80]!r} and {written[:80]!r}"
                raise BadQuantityError(f"{field} has the same name twice, as {both}: name it once")
            seen[name] = written
            if value is None:
                limits.pop(name, None)
            else:
                limits[name] = read(f"{field} {written[:80]}", value)
    if len(limits) > MAX_NAMED:
        raise BadQuantityError(
            f"gpu_type_limits and generic_limits may have at most {MAX_NAMED} names together"
        )
    return tuple(sorted(limits.items()))


def _checked_name(field: str, written: str, *, lower: bool) -> str:
    name = written.strip().lower() if lower else written
    if not name or len(name) > _MAX_MODEL or not name.isprintable() or "," in name:
        raise BadQuantityError(f"{field} must have names such as a100 or licence; got {written[:80]!r}")
    return name


def new_names(patch: QuotaPatch) -> tuple[list[str], list[str]]:
    """The models and the named resources on which the patch puts a limit."""

    def limited(given: Mapping[str, Number | None] | UnsetType) -> list[str]:
        return [] if given is UNSET else [name for name, value in given.items() if value is not None]

    return limited(patch.gpu_type_limits), limited(patch.generic_limits)


def check_there_is(patch: QuotaPatch, nodes: Collection[Node], licences: Collection[str]) -> None:
    """A limit on what nobody has is most likely a slip of the pen. Raises ProblemError."""
    models, resources = new_names(patch)
    if models:
        there = sorted({device.model for node in nodes for device in node.capacity.devices})
        for model in models:
            if not any(model.strip().lower() in name.lower() for name in there):
                raise _nobody_has("gpu_type_limits", "GPU whose model contains", model, there)
    if resources:
        there = sorted({name for node in nodes for name in node.capacity.generic} | set(licences))
        for resource in resources:
            if resource not in there:
                raise _nobody_has("generic_limits", "resource called", resource, there)


def _nobody_has(field: str, what: str, name: str, there: list[str]) -> Exception:
    known = ", ".join(there) or "none"
    return unprocessable(
        field,
        f"{field}: no node has a {what} {name[:80]!r}; there is: {known}. `?force=true` takes it anyway",
    )


def quota_out(tenant: Tenant, reserved: Mapping[str, int]) -> QuotaOut:
    """`reserved`: of GPU-hours, by tenant."""
    kept = sum(gpu_ms for owner, gpu_ms in reserved.items() if is_within(owner, tenant.tenant_id))
    limits, used, burst = tenant.limits, tenant.used, tenant.burst
    jobs, use = tenant.job_limits, tenant.job_use
    models, generic = _of(limits.named, GPU_MODEL), _of(limits.named, GENERIC)
    return QuotaOut(
        quota_id=tenant.tenant_id,
        tenant_id=tenant.tenant_id,
        cpu_limit=optional_decimal(limits.cpu_milli),
        mem_limit_mb=limits.memory_mib,
        disk_limit_mb=limits.disk_mib,
        gpu_limit=optional_decimal(limits.gpu_milli),
        gpu_type_limits={name: decimal(amount) for name, amount in models.items()},
        generic_limits=generic,
        running_jobs_limit=jobs.running,
        waiting_jobs_limit=jobs.waiting,
        gpu_hours_limit=optional_gpu_hours(jobs.gpu_ms),
        gpu_hours_period=jobs.period,
        cpu_used=decimal(used.cpu_milli),
        mem_used_mb=used.memory_mib,
        disk_used_mb=used.disk_mib,
        gpu_used=decimal(used.gpu_milli),
        gpu_type_used={name: decimal(_used(used, GPU_MODEL + name)) for name in models},
        generic_used={name: _used(used, GENERIC + name) for name in generic},
        running_jobs_used=use.running,
        waiting_jobs_used=use.waiting,
        gpu_hours_used=gpu_hours(use.gpu_ms),
        gpu_hours_reserved=gpu_hours(min(kept, use.gpu_ms)),
        cpu_burst=decimal(burst.cpu_milli),
        mem_burst_mb=burst.memory_mib,
        disk_burst_mb=burst.disk_mib,
        gpu_burst=decimal(burst.gpu_milli),
        gpu_type_burst={name: decimal(_used(burst, GPU_MODEL + name)) for name in models},
        generic_burst={name: _used(burst, GENERIC + name) for name in generic},
        version=tenant.version,
    )


def _of(named: Named, prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): amount for name, amount in named if name.startswith(prefix)}


def _used(used: Amounts, name: str) -> int:
    return used.of(name)
