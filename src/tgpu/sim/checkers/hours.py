"""GPU-hours: what somebody will take off the count is in it, wherever tenants move and periods end."""

from collections.abc import Iterator

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.tenant import Tenant, lineage
from tgpu.sim.facts import Watcher
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt


class HoursAreThere(Watcher):
    """A tenant counts no less than what tasks below it have reserved, and what their lost attempts ran in its
    period: else more could start than its limit allows."""

    def __init__(self, state: State) -> None:
        self._state = state

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch, receipt
        if batch.returned or batch.ended or batch.lost:
            yield from self.now_and_then()

    def now_and_then(self) -> Iterator[str]:
        least = dict.fromkeys(self._state.tenants, 0)
        for task_id in self._state.live:
            for name in lineage(self._state.jobs[task_id.job_id].spec.tenant_id):
                least[name] += self._to_be_taken_off(task_id, self._state.tenants[name])
        for name, tenant in self._state.tenants.items():
            if tenant.job_use.gpu_ms < least[name]:
                yield f"tenant {name} counts {tenant.job_use} of GPU-hours: not even {least[name]}"

    def _to_be_taken_off(self, task_id: TaskId, tenant: Tenant) -> int:
        task = self._state.tasks[task_id]
        total, milli = task.reserved_gpu_ms, charged_gpu_milli(task.request)
        for attempt in self._state.attempts.get(task_id, ()):
            if attempt.state is AttemptState.LOST and attempt.started_ms is not None and attempt.exit:
                since_ms = max(attempt.started_ms, tenant.job_use.period_from_ms)
                total += milli * max(0, attempt.exit.ended_ms - since_ms) // 1000
        return total
