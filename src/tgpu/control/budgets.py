"""Tenants that have spent most of their budget, or all of it: somebody is told, and nothing is stopped."""

from tgpu.control.alerts import BUDGET_NEAR, BUDGET_SPENT, Alerts
from tgpu.domain.periods import period_from_ms
from tgpu.domain.quota import Period
from tgpu.domain.tenant import Budget, Tenant
from tgpu.store.port import Store

NEAR_PERCENT, SPENT_PERCENT = 80, 100
_GPU_HOUR = 1000 * 3600


class Budgets:
    def __init__(self, store: Store, alerts: Alerts) -> None:
        self._store = store
        self._alerts = alerts
        self._told: set[str] = set()

    async def look(self, now_ms: int) -> None:
        tenants = [tenant for tenant in await self._store.tenants() if tenant.budget is not None]
        since = {
            t.tenant_id: period_from_ms(t.budget.period, now_ms) for t in tenants if t.budget is not None
        }
        spent = await self._store.gpu_ms_since(since, now_ms) if since else {}
        found = {tenant.tenant_id: _alert(tenant, spent.get(tenant.tenant_id, 0)) for tenant in tenants}
        self._tell({tenant_id: alert for tenant_id, alert in found.items() if alert is not None})

    def _tell(self, alerts: dict[str, tuple[str, str]]) -> None:
        now = {name for name, _ in alerts.values()}
        for name in self._told - now:
            self._alerts.tell(name, None)
        for tenant_id, (name, text) in alerts.items():
            self._alerts.tell(name, text, (tenant_id,))
        self._told = now


def _alert(tenant: Tenant, spent: int) -> tuple[str, str] | None:
    """Its name, and its words; None if all is well."""
    budget = tenant.budget
    assert budget is not None, "only tenants with a budget are looked at"
    percent = 100 * spent // budget.gpu_ms if budget.gpu_ms else SPENT_PERCENT
    if percent < NEAR_PERCENT:
        return None
    name = f"{BUDGET_SPENT if percent >= SPENT_PERCENT else BUDGET_NEAR}:{tenant.tenant_id}"
    return name, _words(tenant.tenant_id, budget, spent, percent)


def _words(tenant_id: str, budget: Budget, spent: int, percent: int) -> str:
    when = "" if budget.period is Period.EVER else f" of this {budget.period}"
    used = f"{_hours(spent)} of {_hours(budget.gpu_ms)} GPU-hours{when}, {percent} %"
    return (
        f"tenant {tenant_id} has spent {used} of its budget; nothing is stopped by that: see `tgpu report`, "
        f"and `tgpu quota set {tenant_id} --gpu-hours` for a limit"
    )


def _hours(gpu_ms: int) -> str:
    """`120.5`, `0.004`, `1048576`: as many digits as an hour has seconds."""
    return f"{gpu_ms / _GPU_HOUR:.3f}".rstrip("0").rstrip(".")
