"""GPU-hours by tenant: what the store last said, and what has been reserved and settled since.

The store keeps the account. What is kept here is only to know in time whom it would refuse; it is put right
whenever a tenant, or all of them, is read again.
"""

from collections import Counter
from collections.abc import Mapping

from tgpu.core.placed import Placed
from tgpu.core.policy import Policy
from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.job import TaskBrief
from tgpu.domain.tenant import Tenant, lineage


class GpuHours:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._used: dict[str, int] = {}
        """Thousandths of a GPU times seconds, with everybody below; of those who have a limit on it."""
        self._from_ms: dict[str, int] = {}
        """When their period began."""
        self._promised: Counter[str] = Counter()
        """For those who have claims: the store does not know of them."""
        self._running: Counter[str] = Counter()
        """By tenant, without those below: what tasks that have a node have reserved."""

    @property
    def used(self) -> Mapping[str, int]:
        return {name: used + self._promised[name] for name, used in self._used.items()}

    @property
    def spent(self) -> Mapping[str, int]:
        """What of it nobody can give back before the period ends: it is neither reserved nor promised."""
        spent = dict(self._used)
        for tenant_id, reserved in self._running.items():
            for name in lineage(tenant_id):
                if name in spent:
                    spent[name] -= reserved
        return {name: max(0, amount) for name, amount in spent.items()}

    def set(self, tenant: Tenant) -> None:
        """As the store says now."""
        self._used.pop(tenant.tenant_id, None)
        if tenant.job_limits.gpu_ms is not None:
            self._used[tenant.tenant_id] = tenant.job_use.gpu_ms
            self._from_ms[tenant.tenant_id] = tenant.job_use.period_from_ms

    def reserve(self, task: TaskBrief) -> None:
        """It has a node: as long as it may run."""
        if self._used:
            for name in self._limited(task):
                self._used[name] += self._policy.gpu_ms(task)

    def runs(self, task: TaskBrief, sign: int) -> None:
        """It has a node, whether the store has said so or it was reserved here; with `sign` -1, no more."""
        self._running[task.tenant_id] += sign * self._policy.gpu_ms(task)

    def promise(self, task: TaskBrief, sign: int) -> None:
        """It has a claim, or, with `sign` -1, has it no more."""
        for name in lineage(task.tenant_id):
            self._promised[name] += sign * self._policy.gpu_ms(task)

    def settle(self, placed: Placed, now_ms: int) -> None:
        """It has left: what it really used, in this period, instead of what was reserved."""
        if not self._used:
            return
        task = placed.task
        milli, reserved = charged_gpu_milli(task.request), self._policy.gpu_ms(task)
        for name in self._limited(task):
            since_ms = now_ms if placed.started_ms is None else placed.started_ms
            ran_ms = max(0, now_ms - max(since_ms, self._from_ms[name]))
            self._used[name] += milli * ran_ms // 1000 - reserved

    def _limited(self, task: TaskBrief) -> list[str]:
        return [name for name in lineage(task.tenant_id) if name in self._used]
