"""What tenants may be charged, and what they are: counted by tenant and kind of request.

A quota counts four amounts and whatever some tenant has a limit on by name, as requests say them. A share is
measured by what tasks really hold. So the two have columns of their own.
"""

from collections.abc import Mapping

import numpy as np

from tgpu.core.columns.tenant_columns import TenantColumns
from tgpu.core.gpu_hours import GpuHours
from tgpu.core.kernel.shapes import Ints
from tgpu.domain.charges import charged_gpu_milli, charged_of
from tgpu.domain.job import Request
from tgpu.domain.quota import BASIC, Limits
from tgpu.domain.tenant import Tenant, lineage

RUNNING, GPU_MS = 0, 1
"""The columns of what is counted when a task begins."""
_Counts = dict[tuple[int, int], int]
"""By tenant's number and kind: how many tasks."""


class QuotaColumns:
    """Of all tasks that live. What is counted here by kind becomes amounts when a plan asks for them."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        """What is limited by name, beside `BASIC`: grows, and never shrinks."""
        self._begin_limited: set[str] = set()
        """Tenants that may run only so many tasks, or use only so many GPU-hours."""
        self._limits: dict[str, Tenant] = {}
        self._charged: _Counts = {}
        self._burst: _Counts = {}
        self._running: dict[int, int] = {}
        """By tenant's number: tasks that have been given a node, or been promised one."""
        self._laid_out: tuple[int, Ints, Ints] | None = None
        """For which rows, and the limits in them."""

    @property
    def width(self) -> int:
        return len(BASIC) + len(self.names)

    @property
    def limits_begin(self) -> bool:
        """Whether it matters to anybody how many tasks run, or how many GPU-hours they take."""
        return bool(self._begin_limited)

    def set(self, tenant: Tenant) -> bool:
        """True if there is a new name: then every kind has to be asked anew."""
        self._laid_out = None
        self._limits[tenant.tenant_id] = tenant
        self._begin_limited.discard(tenant.tenant_id)
        if tenant.job_limits.running is not None or tenant.job_limits.gpu_ms is not None:
            self._begin_limited.add(tenant.tenant_id)
        new = {name for name, _ in tenant.limits.named} - set(self.names)
        self.names = (*self.names, *sorted(new))
        return bool(new)

    def need(self, request: Request) -> list[int]:
        """What it is charged for, in the order of the columns."""
        basic = [request.cpu_milli, request.memory_mib, request.disk_mib, charged_gpu_milli(request)]
        return basic + [charged_of(request, name) for name in self.names]

    def may_burst(self, tenant_id: str) -> bool:
        """As the nearest tenant says that says something."""
        for name in reversed(lineage(tenant_id)):
            tenant = self._limits.get(name)
            if tenant is not None and tenant.terms.may_burst is not None:
                return tenant.terms.may_burst
        return True

    # What is charged

    def charge(self, tenant: int, kind: int, sign: int) -> None:
        _count(self._charged, (tenant, kind), sign)

    def charge_burst(self, tenant: int, kind: int, sign: int) -> None:
        _count(self._burst, (tenant, kind), sign)

    def runs(self, tenant: int, sign: int) -> None:
        self._running[tenant] = self._running.get(tenant, 0) + sign

    # For a plan

    def arrays(
        self, tenants: TenantColumns, need: Ints, hours: GpuHours, *, asked: bool
    ) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """The last columns of `Tree` but one. `need` by kind; `hours` are known with everybody below. What is
        charged, and spent, only if somebody is held, and so `asked` for."""
        limit, begin_limit = self._limit_arrays(tenants)
        charged, burst = np.zeros_like(limit), np.zeros_like(limit)
        if asked:
            charged, burst = (
                self._summed(tenants, self._charged, need),
                self._summed(tenants, self._burst, need),
            )
        begun = self._begun(tenants, hours.used) if self.limits_begin else np.zeros_like(begin_limit)
        spent = np.zeros(tenants.rows, dtype=np.int64)
        for name, amount in hours.spent.items() if asked else ():
            spent[tenants.top_row[name]] = amount
        return limit, charged, burst, begin_limit, begun, spent

    def _limit_arrays(self, tenants: TenantColumns) -> tuple[Ints, Ints]:
        """[T, Q] of amounts, and [T, 2] of what counts when a task begins; -1: none."""
        if self._laid_out is None or self._laid_out[0] != tenants.layouts:
            rows = tenants.rows
            amounts = np.full((rows, self.width), -1, dtype=np.int64)
            begin = np.full((rows, 2), -1, dtype=np.int64)
            for name, tenant in self._limits.items():
                row, jobs = tenants.top_row[name], tenant.job_limits
                amounts[row] = self._row(tenant.limits)
                begin[row] = [-1 if most is None else most for most in (jobs.running, jobs.gpu_ms)]
            self._laid_out = (tenants.layouts, amounts, begin)
        return self._laid_out[1], self._laid_out[2]

    def _row(self, limits: Limits) -> list[int]:
        named = dict(limits.named)
        found = [getattr(limits, name) for name in BASIC] + [named.get(name) for name in self.names]
        return [-1 if most is None else most for most in found]

    def _begun(self, tenants: TenantColumns, gpu_ms: Mapping[str, int]) -> Ints:
        found = np.zeros((tenants.rows, 2), dtype=np.int64)
        for number, count in self._running.items():
            found[tenants.row_of[number], RUNNING] += count
        tenants.sum_up(found)
        for name, used in gpu_ms.items():
            found[tenants.top_row[name], GPU_MS] = used
        return found

    def _summed(self, tenants: TenantColumns, counts: _Counts, need: Ints) -> Ints:
        found = np.zeros((tenants.rows, self.width), dtype=np.int64)
        if counts:
            keys: Ints = np.array(list(counts), dtype=np.int64)
            times = np.fromiter(counts.values(), dtype=np.int64, count=len(counts))
            np.add.at(found, tenants.row_of[keys[:, 0]], need[keys[:, 1]] * times[:, None])
            tenants.sum_up(found)
        return found


def _count(counts: _Counts, key: tuple[int, int], sign: int) -> None:
    left = counts.get(key, 0) + sign
    if left:
        counts[key] = left
    else:
        del counts[key]
