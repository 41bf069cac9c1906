"""Who shares the simulated cluster: tenants with quotas of every sort, and who changes these."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from tgpu.domain.access import Actor
from tgpu.domain.quota import JobLimits, Limits, Named, OverQuota, Period
from tgpu.domain.tenant import Budget, Tenant, Terms
from tgpu.sim.chance import happens
from tgpu.sim.door import Door
from tgpu.sim.store import SimStore
from tgpu.sim.trace import Trace
from tgpu.store.port import TenantExistsError, UnknownTenantError

FOUNDER = Actor("root", "server")
TENANTS = ("default", "lab", "lab/one", "team", "team/two")
"""Whom users submit to; the last one is moved about."""
MOVED = ("team/two", "lab/two", "two")
MOST_WEIGHT = 5
_DAY_GPU_MS = 1000 * 86_400
"""What a task of one GPU without a time limit reserves, about."""


async def found(store: SimStore, random: Random) -> None:
    for tenant_id in TENANTS:
        weight = random.randint(1, MOST_WEIGHT)
        if tenant_id in store.state.tenants:
            await store.update_tenant(tenant_id, partial(replace, weight=weight), FOUNDER, 0)
            continue
        asked = _limited(random, Tenant(tenant_id, weight=weight))
        await store.create_tenant(asked, FOUNDER, 0)


def _limited(random: Random, tenant: Tenant) -> Tenant:
    """Roomy or tight; a tenant without any limits is common, too."""
    if happens(random, 0.3):
        return replace(tenant, limits=Limits(), job_limits=JobLimits())
    amounts = (None, None, 4000, 8000, 20_000)
    named: tuple[Named, ...] = ((), (), (("gpu:t4", 1000),), (("gpu:a100", 2000), ("gpu:t4", 0)))
    limits = Limits(random.choice(amounts), gpu_milli=random.choice(amounts), named=random.choice(named))
    jobs = JobLimits(
        random.choice((None, None, 1, 2, 4)),
        random.choice((None, None, None, 10)),
        random.choice((None, None, None, _DAY_GPU_MS // 100, 2 * _DAY_GPU_MS)),
        random.choice((Period.DAY, Period.MONTH)),
    )
    terms = Terms(
        over_quota=random.choice((None, None, OverQuota.REJECT, OverQuota.QUEUE, OverQuota.QUEUE)),
        may_burst=random.choice((None, None, True, False)),
    )
    budget = random.choice((None, Budget(_DAY_GPU_MS)))
    return replace(tenant, limits=limits, job_limits=jobs, terms=terms, budget=budget)


class Administrator:
    """Changes quotas, weights and the tree while jobs wait and run."""

    def __init__(self, random: Random, door: Door, trace: Trace) -> None:
        self._random = random
        self._door = door
        self._trace = trace

    async def live(self, acts: int, for_s: float) -> None:
        for _ in range(acts):
            await asyncio.sleep(self._random.uniform(0, 2 * for_s / acts))
            if happens(self._random, 0.2):
                await self._move()
            else:
                await self._change()

    async def _change(self) -> None:
        tenant_id = self._random.choice(TENANTS[1:])
        made, weight = _limited(self._random, Tenant("")), self._random.randint(1, MOST_WEIGHT)

        def change(tenant: Tenant) -> Tenant:
            return replace(made, tenant_id=tenant.tenant_id, weight=weight)

        await self._update(tenant_id, change)

    async def _update(self, tenant_id: str, change: Callable[[Tenant], Tenant]) -> None:
        at_ms = self._door.now_ms()
        try:
            now = await self._door.ask(lambda store: store.update_tenant(tenant_id, change, FOUNDER, at_ms))
        except UnknownTenantError:
            return  # it has another name by now
        told = f"{now.limits} {now.job_limits} {now.terms.over_quota} may burst: {now.terms.may_burst}"
        self._trace.add("admin", f"tenant {tenant_id}: weight {now.weight} {told}")

    async def _move(self) -> None:
        known = {tenant.tenant_id for tenant in await self._door.ask(lambda store: store.tenants())}
        name = next(name for name in MOVED if name in known)
        to = self._random.choice([other for other in MOVED if other != name])
        at_ms = self._door.now_ms()
        try:
            await self._door.ask(lambda store: store.move_tenant(name, to, FOUNDER, at_ms))
        except (UnknownTenantError, TenantExistsError):
            return  # it has been moved, and nobody heard the answer
        self._trace.add("admin", f"tenant {name} is {to} from now on")

    async def lift_limits(self) -> None:
        """At last, so that everything can come to an end."""
        for tenant in await self._door.ask(lambda store: store.tenants()):
            await self._update(tenant.tenant_id, partial(replace, limits=Limits(), job_limits=JobLimits()))
