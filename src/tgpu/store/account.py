"""One tenant's page of the ledger while a transaction works on it: what is limited, and what is used of it.

Both kinds of store decide on these, so that the rules stand once; a database writes what has changed.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tgpu.domain.charges import charged_gpu_milli, charged_of
from tgpu.domain.job import Request
from tgpu.domain.quota import BASIC, BURST_PART, JobUse, OverQuota
from tgpu.domain.tenant import Tenant
from tgpu.store.demand import amounts_of

Charge = dict[str, int]
"""By dimension; none of them is zero."""


class Terms(NamedTuple):
    """What a tenant says of work beyond its quota; None: as its parent."""

    over_quota: OverQuota | None
    may_burst: bool | None
    archived: bool


class Change(NamedTuple):
    """What a transaction has made of it."""

    used: Charge
    burst: Charge
    running: int
    waiting: int
    gpu_ms: int

    def __bool__(self) -> bool:
        return bool(self.used or self.burst or self.running or self.waiting or self.gpu_ms)


@dataclass(slots=True)
class Guards:
    """What was charged on condition that there is room: whoever writes it asks for that again."""

    amounts: bool = False
    waiting: bool = False
    running: bool = False
    gpu_ms: bool = False


@dataclass(slots=True)
class Account:
    tenant_id: str
    limits: dict[str, int]
    """By dimension, where there is one."""
    names: tuple[str, ...]
    """The dimensions that it has beyond the four that all have."""
    used: Charge
    burst: Charge
    running_limit: int | None
    waiting_limit: int | None
    gpu_ms_limit: int | None
    running: int
    waiting: int
    gpu_ms: int
    period_from_ms: int
    terms: Terms
    guards: Guards = field(default_factory=Guards)
    unasked: bool = False
    """Something was charged to the burst on no condition: no guard of amounts holds for it."""
    _opened: tuple[Charge, Charge, int, int, int] = field(init=False)

    def __post_init__(self) -> None:
        self._opened = (dict(self.used), dict(self.burst), self.running, self.waiting, self.gpu_ms)

    @property
    def limits_arrivals(self) -> bool:
        return bool(self.limits) or self.waiting_limit is not None

    @property
    def limits_starts(self) -> bool:
        return self.running_limit is not None or self.gpu_ms_limit is not None

    def beyond_limit(self, charge: Charge) -> str | None:
        """The first dimension in which this alone is more than there ever can be."""
        for name, limit in self.limits.items():
            if charge.get(name, 0) > limit:
                return name
        return None

    def without_room(self, charge: Charge) -> str | None:
        """The first dimension, of those that are asked for, that has no room."""
        for name, limit in self.limits.items():
            if name in charge and self.used[name] + charge[name] > limit:
                return name
        return None

    def without_burst(self, charge: Charge) -> str | None:
        """Likewise, of the burst, which has its own limit: what is admitted does not count there."""
        for name, limit in self.limits.items():
            if name in charge and BURST_PART * (self.burst[name] + charge[name]) > limit:
                return name
        return None

    def beyond_burst(self, charge: Charge) -> str | None:
        """The first dimension in which this alone is more than the burst ever can be."""
        for name, limit in self.limits.items():
            if BURST_PART * charge.get(name, 0) > limit:
                return name
        return None

    def may_wait(self, tasks: int = 1) -> bool:
        return self.waiting_limit is None or self.waiting + tasks <= self.waiting_limit

    def may_start(self, gpu_ms: int) -> bool:
        return (self.running_limit is None or self.running < self.running_limit) and (
            self.gpu_ms_limit is None or not gpu_ms or self.gpu_ms + gpu_ms <= self.gpu_ms_limit
        )

    def add_unasked(self, charge: Charge) -> None:
        """To the burst, whether or not there is room."""
        add(self.burst, charge)
        self.unasked = True

    def change(self) -> Change:
        used, burst, running, waiting, gpu_ms = self._opened
        return Change(
            _difference(self.used, used),
            _difference(self.burst, burst),
            self.running - running,
            self.waiting - waiting,
            self.gpu_ms - gpu_ms,
        )

    def shown_on(self, tenant: Tenant) -> Tenant:
        """The tenant, with what is used by now."""
        return replace(
            tenant,
            used=amounts_of(self.used),
            burst=amounts_of(self.burst),
            job_use=JobUse(self.running, self.waiting, self.gpu_ms, self.period_from_ms),
        )


def add(total: Charge, charge: Charge, sign: int = 1) -> None:
    for name, amount in charge.items():
        total[name] += sign * amount


def add_request(account: "Account", request: Request, sign: int) -> None:
    """To what is used, or from it, without looking at limits; the same as `charge_of`, many times faster."""
    used = account.used
    used["cpu_milli"] += sign * request.cpu_milli
    used["memory_mib"] += sign * request.memory_mib
    used["disk_mib"] += sign * request.disk_mib
    used["gpu_milli"] += sign * charged_gpu_milli(request)
    for name in account.names:
        used[name] += sign * charged_of(request, name)


def _difference(now: Charge, before: Charge) -> Charge:
    return {name: amount - before[name] for name, amount in now.items() if amount != before[name]}


def account_of(tenant: Tenant) -> Account:
    """The page of a tenant that is known whole."""
    names = tuple(name for name, _ in tenant.limits.named)
    basic = {name: limit for name in BASIC if (limit := getattr(tenant.limits, name)) is not None}
    return Account(
        tenant.tenant_id,
        basic | dict(tenant.limits.named),
        names,
        {name: tenant.used.of(name) for name in (*BASIC, *names)},
        {name: tenant.burst.of(name) for name in (*BASIC, *names)},
        tenant.job_limits.running,
        tenant.job_limits.waiting,
        tenant.job_limits.gpu_ms,
        tenant.job_use.running,
        tenant.job_use.waiting,
        tenant.job_use.gpu_ms,
        tenant.job_use.period_from_ms,
        Terms(tenant.terms.over_quota, tenant.terms.may_burst, tenant.terms.archived),
    )
