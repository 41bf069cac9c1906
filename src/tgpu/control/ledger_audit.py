"""Does the ledger of quotas say what lives? Added up every minute; a difference is a bug, and put right."""

from collections.abc import Sequence

from tgpu.control.alerts import LEDGER_DIFFERS, Alerts
from tgpu.control.observer import Observer
from tgpu.observe.logs import logger
from tgpu.store.port import Store
from tgpu.store.quota_port import Discrepancy

_MOST_TOLD = 5


class LedgerAudit:
    def __init__(self, store: Store, alerts: Alerts, observer: Observer) -> None:
        self._store = store
        self._alerts = alerts
        self._observer = observer
        self._log = logger("ledger")

    async def look(self, epoch: int) -> None:
        found = await self._store.recount(epoch)
        tenants = tuple(dict.fromkeys(each.tenant_id for each in found))
        self._alerts.tell(LEDGER_DIFFERS, _words(found) if found else None, tenants)
        if found:
            self._observer.count_ledger_differences(len(found))
            self._log.error("the ledger of quotas differed", numbers=[_number(each) for each in found])


def _words(found: Sequence[Discrepancy]) -> str:
    told = ", ".join(map(_number, found[:_MOST_TOLD]))
    more = f" and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    return f"the ledger of quotas was wrong and has been put right ({told}{more}): report a bug"


def _number(found: Discrepancy) -> str:
    return f"tenant {found.tenant_id}: {found.dimension} was {found.recorded} instead of {found.true}"
