"""What a leader looks after beside its turns, every now and then."""

import asyncio
from collections.abc import Callable

from tgpu.control.alerts import Alerts
from tgpu.control.budgets import Budgets
from tgpu.control.ledger_audit import LedgerAudit
from tgpu.control.observer import Observer
from tgpu.observe.logs import logger
from tgpu.store.port import DeposedError, Store, StoreUnavailableError

SHARE = 0.005
"""The most of its time that a leader spends on them."""
MOST_FORGOTTEN = 100
"""Jobs that are over for long, in one transaction: they may have very many tasks."""

MOST_SESSIONS = 1000
"""Web sessions that have ended, in one transaction."""


class Duties:
    """None of them needs the picture: they ask the store, while turns go on."""

    def __init__(  # noqa: PLR0917  its parts
        self,
        store: Store,
        alerts: Alerts,
        observer: Observer,
        every_s: float,
        now_ms: Callable[[], int],
        failed: Callable[[Exception], None],
    ) -> None:
        """`failed`: counts and alerts a fault."""
        self._audit = LedgerAudit(store, alerts, observer)
        self._budgets = Budgets(store, alerts)
        self._store = store
        self._every_s = every_s
        self._now_ms = now_ms
        self._failed = failed
        self._log = logger("duties")

    async def run(self, epoch: int) -> None:
        """At once, for nobody knows what the last leader left behind, and then again until another leads."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._audit.look(epoch)
                await self._budgets.look(self._now_ms())
                await self._store.forget(epoch, self._now_ms(), MOST_FORGOTTEN)
                await self._store.forget_sessions(epoch, self._now_ms(), MOST_SESSIONS)
            except DeposedError:
                return  # whoever leads now does it
            except StoreUnavailableError as error:
                self._log.warning("put off: the store is away", error=str(error))
            except Exception as error:  # noqa: BLE001  they are looked after again next time, and turns go on
                self._failed(error)
            await asyncio.sleep(max(self._every_s, (loop.time() - began) / SHARE))
