"""The ledger of quotas: what is charged when, and how it is looked over."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from tgpu.domain.tenant import Tenant
from tgpu.store.refusals import StoreError


class NoBurst(NamedTuple):
    """Why a job without room in its quota may not run on the burst, where its tenants allow that."""

    tenant_id: str | None = None
    """The limit of which it alone is more than half; None: its class may not."""
    dimension: str = ""


class QuotaExceededError(StoreError):
    """The whole submission is refused, with the numbers that say why."""

    def __init__(
        self,
        tenant: Tenant,
        dimension: str,
        asked: int,
        longest_limit_s: int | None = None,
        no_burst: NoBurst | None = None,
    ) -> None:
        super().__init__(f"tenant {tenant.tenant_id} would exceed its quota of {dimension}")
        self.tenant, self.dimension, self.asked = tenant, dimension, asked
        """`dimension`: one of `domain.quota.BASIC`, a name such as `gpu:a100`, `waiting`, or `gpu_ms`.
        `asked`: what the submission, or the part of it that was looked at together, asks of it."""
        self.longest_limit_s = longest_limit_s
        """The time limit with which one that asks for too many GPU-hours would take all there are in a
        period; not positive: there is none."""
        self.no_burst = no_burst
        """None where there is no burst to speak of."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """A number of the ledger that was not the sum of what lives."""

    tenant_id: str
    dimension: str
    """As in QuotaExceededError, `running` or `gpu_ms`; `burst gpu_milli` and so on for the burst."""
    recorded: int
    true: int


class QuotaStore(Protocol):
    async def recount(self, epoch: int) -> list[Discrepancy]:
        """Adds up, in one transaction, what every live task is charged for, and compares: used, burst,
        running, waiting, and the least that must be used of GPU-hours. What differs is put right, and
        returned: there should be nothing, ever. Raises DeposedError."""
        ...

    async def reserved_gpu_ms(self) -> dict[str, int]:
        """What running tasks may still take of GPU-hours, by their tenant: it counts as used by now."""
        ...

    async def roll_periods(self, epoch: int, at_ms: int) -> list[Tenant]:
        """Begins a new period of GPU-hours for every tenant whose last one is over: what is used is what
        running tasks have reserved. Returns those tenants as they are now. Raises DeposedError."""
        ...
