"""What the ledger ought to say: the sum of all that lives, compared with what it says."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tgpu.domain.job import Request
from tgpu.domain.quota import BASIC, Standing
from tgpu.domain.tenant import lineage
from tgpu.store.account import Account, Charge
from tgpu.store.demand import charge_of
from tgpu.store.lost_run import LostRun
from tgpu.store.quota_port import Discrepancy

BURST = "burst "
"""Before the name of a dimension: what is used of it on the burst."""


class Alike(NamedTuple):
    """Live tasks that are charged for alike."""

    tenant_id: str
    waits: bool
    standing: Standing
    request: Request
    number: int
    reserved_gpu_ms: int
    """By all of them together."""


def settle(
    accounts: Mapping[str, Account], living: Iterable[Alike], lost: Iterable[LostRun]
) -> list[Discrepancy]:
    """Puts right what differs, and tells it. What is used of GPU-hours cannot be added up, but it is no less
    than what running tasks have reserved and what is taken off again when lost attempts return."""
    sums = {tenant_id: _Sum(account) for tenant_id, account in accounts.items()}
    for alike in living:
        for tenant_id in lineage(alike.tenant_id):
            if tenant_id in sums:  # one that is newer than what is compared is judged the next time
                sums[tenant_id].add(alike)
    for attempt in lost:
        for tenant_id in lineage(attempt.tenant_id):
            if tenant_id in sums:
                sums[tenant_id].add_lost(attempt)
    return [found for each in sums.values() for found in each.settle()]


class _Sum:
    def __init__(self, account: Account) -> None:
        self._account = account
        self._used: Charge = dict.fromkeys((*BASIC, *account.names), 0)
        self._burst = dict(self._used)
        self._running = self._waiting = self._least_gpu_ms = 0

    def add(self, alike: Alike) -> None:
        if alike.waits:
            self._waiting += alike.number
        else:
            self._running += alike.number
            self._least_gpu_ms += alike.reserved_gpu_ms
        if alike.standing is Standing.HELD:
            return
        total = self._burst if alike.standing is Standing.BURST else self._used
        for name, amount in charge_of(alike.request, self._account.names).items():
            total[name] += amount * alike.number

    def add_lost(self, attempt: LostRun) -> None:
        self._least_gpu_ms += attempt.gpu_ms(self._account.period_from_ms)

    def settle(self) -> Iterable[Discrepancy]:
        account = self._account
        pairs = [(name, account.used[name], true) for name, true in self._used.items()]
        pairs += [(f"{BURST}{name}", account.burst[name], true) for name, true in self._burst.items()]
        pairs += [("running", account.running, self._running), ("waiting", account.waiting, self._waiting)]
        pairs += [("gpu_ms", account.gpu_ms, max(account.gpu_ms, self._least_gpu_ms))]
        account.used, account.burst = self._used, self._burst
        account.running, account.waiting = self._running, self._waiting
        account.gpu_ms = max(account.gpu_ms, self._least_gpu_ms)
        return [
            Discrepancy(account.tenant_id, name, recorded, true)
            for name, recorded, true in pairs
            if recorded != true
        ]
