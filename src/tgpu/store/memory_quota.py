"""The ledger's upkeep, in a memory store."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tgpu.domain.ids import TaskId
from tgpu.domain.periods import period_from_ms
from tgpu.domain.tenant import Tenant, is_within
from tgpu.store.account import account_of
from tgpu.store.memory_state import State
from tgpu.store.port import DeposedError
from tgpu.store.quota_port import Discrepancy
from tgpu.store.tally import Alike, settle

T = TypeVar("T")


class MemoryQuota(ABC):
    _state: State

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        """The effect, with a moment for others before and after it."""

    async def recount(self, epoch: int) -> list[Discrepancy]:
        def recount() -> list[Discrepancy]:
            self._check(epoch)
            tenants = self._state.tenants
            accounts = {tenant_id: account_of(tenant) for tenant_id, tenant in sorted(tenants.items())}
            lost = (run for task_id in self._state.live for run in self._state.lost_runs(task_id))
            found = settle(accounts, map(self._alike, self._state.live), lost)
            if found:
                tenants.update({each: account.shown_on(tenants[each]) for each, account in accounts.items()})
            return found

        return await self._once(recount)

    async def reserved_gpu_ms(self) -> dict[str, int]:
        def reserved() -> dict[str, int]:
            found: dict[str, int] = {}
            for task_id in self._state.live:
                owner = self._state.jobs[task_id.job_id].spec.tenant_id
                found[owner] = found.get(owner, 0) + self._state.tasks[task_id].reserved_gpu_ms
            return {owner: gpu_ms for owner, gpu_ms in found.items() if gpu_ms}

        return await self._once(reserved)

    async def roll_periods(self, epoch: int, at_ms: int) -> list[Tenant]:
        def roll() -> list[Tenant]:
            self._check(epoch)
            return [
                self._begin(tenant, begun_ms)
                for _, tenant in sorted(self._state.tenants.items())
                if (begun_ms := period_from_ms(tenant.job_limits.period, at_ms))
                > tenant.job_use.period_from_ms
            ]

        return await self._once(roll)

    def _begin(self, tenant: Tenant, begun_ms: int) -> Tenant:
        """With what is reserved, and what lost attempts ran since then."""
        below = [
            task_id
            for task_id in self._state.live
            if is_within(self._state.jobs[task_id.job_id].spec.tenant_id, tenant.tenant_id)
        ]
        reserved = sum(self._state.tasks[task_id].reserved_gpu_ms for task_id in below)
        lost = sum(run.gpu_ms(begun_ms) for task_id in below for run in self._state.lost_runs(task_id))
        use = replace(tenant.job_use, gpu_ms=reserved + lost, period_from_ms=begun_ms)
        begun = self._state.tenants[tenant.tenant_id] = replace(tenant, job_use=use)
        return begun

    def _alike(self, task_id: TaskId) -> Alike:
        job, task = self._state.jobs[task_id.job_id], self._state.tasks[task_id]
        return Alike(
            job.spec.tenant_id,
            task.status.waits,
            task.standing,
            task.request,
            1,
            task.reserved_gpu_ms,
        )

    def _check(self, epoch: int) -> None:
        if epoch != self._state.epoch:
            raise DeposedError(f"epoch {epoch} is over: {self._state.epoch} leads by now")
