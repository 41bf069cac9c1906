"""What is wrong now and somebody should look at: raised once, cleared when it is over."""

from collections.abc import Callable, Mapping

from tgpu.control.observer import Observer
from tgpu.domain.views import Alert
from tgpu.observe.logs import logger

BUDGET_NEAR = "budget-near"
BUDGET_SPENT = "budget-spent"
"""Of one tenant each: `budget-spent:lab`."""
CONTROL_FAULT = "control-fault"
GPU_FOREIGN = "gpu-foreign"
GPU_UNHEALTHY = "gpu-unhealthy"
JOB_SET_ASIDE = "job-set-aside"
LEDGER_DIFFERS = "ledger-differs"
NODES_COPIED = "nodes-copied"
MANY_NODES_LOST = "many-nodes-lost"
NODE_SET_ASIDE = "node-set-aside"
NODES_DISK_FULL = "nodes-disk-full"
NODES_OFFLINE = "nodes-offline"
PICTURE_DRIFT = "picture-drift"
SETTINGS_DIFFER = "settings-differ"
STORE_BEHIND = "store-behind"
STORE_RESTORED = "store-restored"


class Alerts:
    """Of one term: what the next leader finds wrong, it says itself."""

    def __init__(self, observer: Observer, now_ms: Callable[[], int]) -> None:
        self._observer = observer
        self._now_ms = now_ms
        self._log = logger("alerts")
        self._now: dict[str, Alert] = {}

    @property
    def now(self) -> tuple[Alert, ...]:
        """The oldest first."""
        return tuple(self._now.values())

    def tell(self, name: str, text: str | None, tenants: tuple[str, ...] = ()) -> None:
        """None: it is over. Said again with other words, it is still the same alert. `tenants`: of whom it
        speaks."""
        known = self._now.get(name)
        if text is None:
            if known is not None:
                del self._now[name]
                self._observer.note_alert(name, on=False)
                self._log.info("over", alert=name)
        elif known is None:
            self._now[name] = Alert(name, text, self._now_ms(), tenants)
            self._observer.note_alert(name, on=True)
            self._log.error(text, alert=name)
        else:
            self._now[name] = Alert(name, text, known.since_ms, tenants)

    def tell_all(self, texts: Mapping[str, str | None]) -> None:
        for name, text in texts.items():
            self.tell(name, text)

    def end(self) -> None:
        for name in list(self._now):
            self.tell(name, None)
