"""Tenants and quotas as callers write and see them."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from tgpu.api.edge import decimal, optional_decimal
from tgpu.api.problems import unprocessable
from tgpu.domain.quantities import (
    MAX_CPU_MILLI,
    MAX_GPU_MILLI,
    MAX_MIB,
    MILLI,
    BadQuantityError,
    milli,
    whole,
)
from tgpu.domain.tenant import TENANT_ID, Limits, Tenant

MAX_WEIGHT = 1_000_000
RESERVED = "quota"  # `/tenants/a/quota` is the quota of `a`

Number = int | float
Weight = Annotated[
    int,
    Meta(
        description="How much of the whole is its due, beside its siblings.",
        extra_json_schema={"minimum": 1, "maximum": MAX_WEIGHT},
    ),
]


def _limit(what: str, high: int) -> Meta:
    return Meta(
        description=f"The most {what} admitted at once; null: without limit.",
        extra_json_schema={"minimum": 0, "maximum": high},
    )


Cpus = Annotated[Number | None, _limit("CPUs", MAX_CPU_MILLI // MILLI)]
Memory = Annotated[Number | None, _limit("MiB of memory", MAX_MIB)]
Disk = Annotated[Number | None, _limit("MiB of disk", MAX_MIB)]
Gpus = Annotated[Number | None, _limit("GPUs", MAX_GPU_MILLI // MILLI)]


class QuotaPatch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to change; null takes a limit away, what is left out stays."""

    cpu_limit: Cpus | UnsetType = UNSET
    mem_limit_mb: Memory | UnsetType = UNSET
    disk_limit_mb: Disk | UnsetType = UNSET
    gpu_limit: Gpus | UnsetType = UNSET


class TenantPatch(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What is to change; limits have a path of their own."""

    weight: Weight | UnsetType = UNSET


class TenantAsked(QuotaPatch, kw_only=True):
    """A new tenant; its parent, the part before the last slash, must exist."""

    tenant_id: Annotated[
        str, Meta(description="Such as org/team.", extra_json_schema={"pattern": f"^{TENANT_ID.pattern}$"})
    ]
    weight: Weight = 1


class QuotaOut(msgspec.Struct, kw_only=True):
    """A tenant's limits and what it uses of them; a null limit is none."""

    quota_id: str
    tenant_id: str
    cpu_limit: int | float | None
    mem_limit_mb: int | None
    disk_limit_mb: int | None
    gpu_limit: int | float | None
    cpu_used: int | float
    mem_used_mb: int
    disk_used_mb: int
    gpu_used: int | float
    version: int


class TenantOut(msgspec.Struct, kw_only=True):
    """A node of the tree of those who share the machines."""

    tenant_id: str
    parent_id: str | None
    weight: int
    version: int
    quota: QuotaOut


def checked_id(tenant_id: str) -> str:
    if not TENANT_ID.fullmatch(tenant_id):
        raise unprocessable(
            "tenant_id",
            "tenant_id must be up to 8 names joined by slashes, each of a-z, 0-9, _ and -, such as org/team; "
            f"got {tenant_id[:80]!r}",
        )
    if tenant_id.rpartition("/")[2] == RESERVED:
        raise unprocessable("tenant_id", f"tenant_id must not end with {RESERVED!r}: that name is taken")
    return tenant_id


def checked_weight(weight: int) -> int:
    if not 1 <= weight <= MAX_WEIGHT:
        raise unprocessable("weight", f"weight must be from 1 to {MAX_WEIGHT}; got {weight}")
    return weight


def limits_after(patch: QuotaPatch, old: Limits) -> Limits:
    try:
        return Limits(
            _milli("cpu_limit", patch.cpu_limit, MAX_CPU_MILLI, old.cpu_milli),
            _whole("mem_limit_mb", patch.mem_limit_mb, old.memory_mib),
            _whole("disk_limit_mb", patch.disk_limit_mb, old.disk_mib),
            _milli("gpu_limit", patch.gpu_limit, MAX_GPU_MILLI, old.gpu_milli),
        )
    except BadQuantityError as error:
        raise unprocessable(str(error).partition(" ")[0], str(error)) from None


def _milli(name: str, value: Number | UnsetType | None, maximum: int, old: int | None) -> int | None:
    if value is UNSET:
        return old
    return None if value is None else milli(name, value, maximum)


def _whole(name: str, value: Number | UnsetType | None, old: int | None) -> int | None:
    if value is UNSET:
        return old
    return None if value is None else whole(name, value, MAX_MIB)


def quota_out(tenant: Tenant) -> QuotaOut:
    limits, used = tenant.limits, tenant.used
    return QuotaOut(
        quota_id=tenant.tenant_id,
        tenant_id=tenant.tenant_id,
        cpu_limit=optional_decimal(limits.cpu_milli),
        mem_limit_mb=limits.memory_mib,
        disk_limit_mb=limits.disk_mib,
        gpu_limit=optional_decimal(limits.gpu_milli),
        cpu_used=decimal(used.cpu_milli),
        mem_used_mb=used.memory_mib,
        disk_used_mb=used.disk_mib,
        gpu_used=decimal(used.gpu_milli),
        version=tenant.version,
    )


def tenant_out(tenant: Tenant) -> TenantOut:
    return TenantOut(
        tenant_id=tenant.tenant_id,
        parent_id=tenant.parent_id,
        weight=tenant.weight,
        version=tenant.version,
        quota=quota_out(tenant),
    )
