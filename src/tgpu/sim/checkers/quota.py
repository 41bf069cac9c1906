"""What the ledger says is used is what the live jobs ask for, in every tenant, and within its limits."""

from collections.abc import Iterator

from tgpu.domain.tenant import Amounts, lineage
from tgpu.sim.facts import Watcher
from tgpu.store.memory_state import State


class QuotaAddsUp(Watcher):
    def __init__(self, state: State) -> None:
        self._state = state

    def now_and_then(self) -> Iterator[str]:
        sums: dict[str, Amounts] = {}
        for job in self._state.jobs.values():
            if job.status.is_final:
                continue
            asked = job.spec.groups[0].request
            amounts = Amounts(asked.cpu_milli, asked.memory_mib, asked.disk_mib, asked.gpu_milli)
            for tenant_id in lineage(job.spec.tenant_id):
                sums[tenant_id] = sums.get(tenant_id, Amounts()).plus(amounts)
        for tenant in self._state.tenants.values():
            if tenant.used != sums.get(tenant.tenant_id, Amounts()):
                yield f"tenant {tenant.tenant_id} is charged {tenant.used}, its jobs ask for other amounts"
            if (dimension := tenant.limits.exceeded_by(tenant.used)) is not None:
                yield f"tenant {tenant.tenant_id} is beyond its {dimension}"
