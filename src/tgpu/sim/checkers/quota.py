"""Quotas: the ledger says what lives, in every tenant, and nobody is admitted beyond a limit."""

from collections.abc import Iterator

from tgpu.core.invariants import Charged, charges, overcharges
from tgpu.domain.quota import Amounts, Limits
from tgpu.domain.tenant import Tenant, lineage
from tgpu.sim.facts import Facts, Watcher
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt


class QuotaAddsUp(Watcher):
    """What is used, runs and waits, by adding up; and the leader's own audit finds nothing either."""

    def __init__(self, facts: Facts, state: State) -> None:
        self._facts = facts
        self._state = state
        self._added_up: tuple[list[Charged], list[Tenant]] = ([], [])

    def now_and_then(self) -> Iterator[str]:
        ledger = _living(self._state), list(self._state.tenants.values())
        if ledger != self._added_up:
            self._added_up = ledger
            yield from self._add_up(*ledger)
        if self._facts.ledger_differences:
            yield f"the leader's audit found {self._facts.ledger_differences} numbers that differ"

    @staticmethod
    def _add_up(living: list[Charged], tenants: list[Tenant]) -> Iterator[str]:
        for tenant in tenants:
            used, burst = charges(tenant, living)
            yield from _differs(tenant, "used", tenant.used, used)
            yield from _differs(tenant, "burst", tenant.burst, burst)
            below = [task for task in living if tenant.tenant_id in lineage(task.tenant_id)]
            counted = sum(task.has_node for task in below), sum(not task.has_node for task in below)
            if (tenant.job_use.running, tenant.job_use.waiting) != counted:
                yield f"tenant {tenant.tenant_id} says {tenant.job_use}, and it is {counted}"

    def at_rest(self) -> Iterator[str]:
        for tenant in self._state.tenants.values():
            if tenant.used != Amounts() or tenant.burst != Amounts():
                yield f"nothing lives, and tenant {tenant.tenant_id} is charged {tenant.used} {tenant.burst}"


def _differs(tenant: Tenant, what: str, said: Amounts, true: Amounts) -> Iterator[str]:
    if said != true:
        yield f"tenant {tenant.tenant_id}: {what} is {said}, and what lives is {true}"


class QuotaHolds(Watcher):
    """Who is over a limit was so when it was lowered, or when others were moved there, or returned; and it
    does not become more from then on."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._excused: dict[tuple[str, str], int] = {}
        """By tenant and what is limited: by how much it may be over, and no more."""
        self._known: dict[str, tuple[Limits, int | None]] = {}
        self._rearranged = 0
        self._judged: tuple[list[Charged], list[Tenant], int] | None = None

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch, receipt
        if batch.returned:
            self._known.clear()
            self._judged = None
        yield from self.now_and_then()

    def now_and_then(self) -> Iterator[str]:
        living, tenants = _living(self._state), list(self._state.tenants.values())
        if (living, tenants, self._state.rearranged_seq) == self._judged:
            return
        self._judged = living, tenants, self._state.rearranged_seq
        anew, found = self._changed(), overcharges(tenants, living)
        for over in found:
            key = (over.tenant_id, over.dimension)
            excused = self._excused.get(key, 0)
            if over.by > excused and not any(name in anew for name in lineage(over.tenant_id)):
                yield f"tenant {over.tenant_id} is over its limit of {over.dimension} by {over.by}"
            self._excused[key] = over.by
        now_over = {(over.tenant_id, over.dimension) for over in found}
        self._excused = {key: by for key, by in self._excused.items() if key in now_over}

    def _changed(self) -> set[str]:
        """Tenants with other limits than at the last look; after a move, all."""
        tenants, moved = self._state.tenants, self._state.rearranged_seq != self._rearranged
        now = {name: (tenant.limits, tenant.job_limits.running) for name, tenant in tenants.items()}
        changed = {name for name, limits in now.items() if moved or self._known.get(name) != limits}
        self._known, self._rearranged = now, self._state.rearranged_seq
        return changed


def _living(state: State) -> list[Charged]:
    return [
        Charged(
            state.jobs[task_id.job_id].spec.tenant_id,
            state.tasks[task_id].request,
            state.tasks[task_id].standing,
            has_node=not state.tasks[task_id].status.waits,
        )
        for task_id in sorted(state.live)
    ]
