"""What users do: submit, in bulk too, and cancel, twice too and too late; and ask again until answered."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tgpu.domain.job import Gang, Group, JobSpec, OnReturn, Request
from tgpu.domain.node import Capacity
from tgpu.domain.priority import PriorityClass
from tgpu.sim.behaviour import Behaviour
from tgpu.sim.chance import happens
from tgpu.sim.door import Door
from tgpu.sim.facts import Facts
from tgpu.sim.series import Meddler, as_series
from tgpu.sim.tenants import MOVED, TENANTS
from tgpu.sim.trace import Trace
from tgpu.sim.waiting import Waverer
from tgpu.store.port import IdempotencyKey, Submitted, UnknownTenantError
from tgpu.store.quota_port import QuotaExceededError


class User:
    def __init__(
        self,
        *,
        name: str,
        random: Random,
        door: Door,
        facts: Facts,
        trace: Trace,
        capacities: Sequence[Capacity],
        series: bool = False,
        waiting: bool = False,
    ) -> None:
        """`series`: some of its jobs are of many tasks. `waiting`: some wait for others, or for a moment."""
        self._waverer = Waverer(name, random, door, trace) if waiting else None
        self._meddler = Meddler(random, door, trace) if series else None
        self._name = name
        self._random = random
        self._door = door
        self._facts = facts
        self._trace = trace
        self._capacities = capacities
        self._mine: list[int] = []

    async def live(self, acts: int, for_s: float) -> None:
        for number in range(acts):
            await asyncio.sleep(self._random.uniform(0, 2 * for_s / acts))
            if self._mine and happens(self._random, 0.25):
                await self._cancel(self._mine)
            else:
                await self._submit(f"{self._name}-{number}")

    async def _submit(self, key: str) -> None:
        count = self._random.choice((1, 1, 1, 2, 5))
        specs = [job_spec(self._random, self._name, self._capacities) for _ in range(count)]
        if self._meddler is not None:
            specs = [as_series(self._random, it) if happens(self._random, 0.5) else it for it in specs]
        if self._waverer is not None:
            specs = self._waverer.with_reasons(specs, self._mine)
        try:
            submitted = await self._sent(specs, key)
        except QuotaExceededError as error:
            self._trace.add(self._name, f"{key} is refused: {error}")
            return
        if submitted is None:
            return
        self._trace.add(self._name, f"{key} is acknowledged as {submitted.job_ids}")
        self._mine += submitted.job_ids
        self._facts.acknowledged.update(dict.fromkeys(submitted.job_ids))
        for job_id, spec in zip(submitted.job_ids, specs, strict=True):
            if self._meddler is not None and self._meddler.wants_to():
                await asyncio.sleep(self._random.choice((0, 0.1, 1.0)))
                await self._meddler.meddle(job_id, spec)
            if self._waverer is not None:
                await self._waverer.waver(job_id, spec)
        if happens(self._random, 0.2):  # some change their mind at once
            await asyncio.sleep(self._random.choice((0, 0.01, 0.5)))
            await self._cancel(submitted.job_ids)

    async def _sent(self, specs: Sequence[JobSpec], key: str) -> Submitted | None:
        """To a tenant that was moved by each of its names, until one is right."""
        at_ms, once = self._door.now_ms(), IdempotencyKey(self._name, key, key)
        for name in MOVED:
            named = [replace(spec, tenant_id=name) if spec.tenant_id in MOVED else spec for spec in specs]
            try:
                return await self._door.ask(lambda store: store.submit(named, at_ms, once))  # noqa: B023  awaited here
            except UnknownTenantError:
                self._trace.add(self._name, f"{key} is for a tenant that was moved")
        return None

    async def _cancel(self, job_ids: Sequence[int]) -> None:
        chosen = self._random.sample(job_ids, min(len(job_ids), self._random.choice((1, 1, 3))))
        now = any(job_id % 3 == 0 for job_id in chosen)
        self._trace.add(self._name, f"cancels {chosen}{' at once' if now else ''}")
        for _ in range(self._random.choice((1, 1, 2))):
            at_ms = self._door.now_ms()
            await self._door.ask(lambda store: store.request_cancel(chosen, self._name, at_ms, now=now))  # noqa: B023  awaited here


def job_spec(random: Random, user: str, capacities: Sequence[Capacity]) -> JobSpec:
    """Anything that at least one of the machines could run."""
    does = behaviour(random).argv
    groups: tuple[Group, ...] = (Group(does, request(random, random.choice(capacities))),)
    own = Random(" ".join(does))  # noqa: S311  chance of its own: who is no gang does what it always did
    gang = None
    if happens(own, 0.12):
        groups, gang = gang_of(own, capacities)
    return JobSpec(
        user=user,
        groups=groups,
        gang=gang,
        fail_together=happens(own, 0.7),
        tenant_id=random.choice(TENANTS),
        priority_class=random.choice(list(PriorityClass)),
        priority=random.randint(-3, 3),
        time_limit_s=random.choice((None, None, None, None, None, 1, 5, 10, 60)),
        max_wait_s=random.choice((None, None, None, None, None, None, 2, 20)),
        requeue=happens(random, 0.8),
        grace_s=random.choice((0, 1, 3)),
        on_return=random.choice((OnReturn.LONGEST, OnReturn.LONGEST, OnReturn.REPLACEMENT)),
        once=happens(random, 0.4),
    )


def gang_of(random: Random, capacities: Sequence[Capacity]) -> tuple[tuple[Group, ...], Gang]:
    """Tasks so small that all find room together, even if a machine is gone; mostly of one kind."""
    sizes = random.choice(((2,), (2,), (3,), (4,), (1, 2)))
    alike = Behaviour(random.randint(500, 20_000), 0, 100, starts=True)
    few, with_gpus = sum(sizes) < len(capacities), sum(bool(capacity.devices) for capacity in capacities) > 1
    per_node = random.choice((None, 1)) if few else None
    gpu_milli = random.choice((0, 250)) if with_gpus and per_node is None else 0
    groups = tuple(
        Group(
            (alike if happens(random, 0.7) else behaviour(random)).argv,
            Request(cpu_milli=random.choice((250, 500)), gpu_milli=gpu_milli),
            tasks=size,
        )
        for size in sizes
    )
    return groups, Gang(sum(sizes), per_node=per_node)


def behaviour(random: Random) -> Behaviour:
    long = happens(random, 0.35)
    return Behaviour(
        runs_ms=random.randint(20_000, 90_000) if long else round(20 * 1000 ** random.random()),
        exit_code=random.choice((0, 0, 0, 1, 137)),
        obeys_ms=random.choice((0, 100, 1500, None)),
        starts=happens(random, 0.95),
    )


def request(random: Random, capacity: Capacity) -> Request:
    devices = len(capacity.devices)
    gpu_milli = random.choice((0, 0, 250, 500, 1000, 1000, 1000 * random.randint(1, max(1, devices))))
    model = random.choice(capacity.devices).model if devices else ""
    fitting = sum(device.model == model for device in capacity.devices)
    wants_type = gpu_milli <= 1000 * fitting and happens(random, 0.3)
    return Request(
        cpu_milli=random.choice((0, 500, 1000, 2000, capacity.cpu_milli)),
        memory_mib=random.choice((0, 512, 4096, capacity.memory_mib)),
        gpu_milli=gpu_milli if devices else 0,
        gpu_type=model if devices and wants_type else None,
        exclusive=happens(random, 0.08),
    )
