"""What users do with jobs that wait for more than room: for others, for a moment, or for themselves."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from tgpu.domain.job import JobSpec
from tgpu.domain.needs import SINGLETON, Need, NeedKind
from tgpu.domain.series import Mode
from tgpu.domain.timing import Timing
from tgpu.sim.chance import happens
from tgpu.sim.door import Door
from tgpu.sim.trace import Trace
from tgpu.store.needs_port import ChangedMeanwhileError, NotWaitingError
from tgpu.store.quota_port import QuotaExceededError

_KINDS = (NeedKind.OK, NeedKind.OK, NeedKind.NOT_OK, NeedKind.ANY, NeedKind.ANY)
_NAMES = ("", "nightly", "daily")


class Waverer:
    """Somebody whose jobs hang together, and who changes their mind about them."""

    def __init__(self, name: str, random: Random, door: Door, trace: Trace) -> None:
        self._name, self._random, self._door, self._trace = name, random, door, trace
        self._series: dict[int, JobSpec] = {}
        """Behind which others can go index by index."""

    def with_reasons(self, specs: Sequence[JobSpec], mine: Sequence[int]) -> list[JobSpec]:
        """`mine`: jobs that are there already."""
        return [self._with_reasons(spec, place, mine) for place, spec in enumerate(specs)]

    def _with_reasons(self, spec: JobSpec, place: int, mine: Sequence[int]) -> JobSpec:
        random = self._random
        if self._series and happens(random, 0.15):
            on = random.choice(sorted(self._series))
            return replace(self._series[on], needs=(Need(NeedKind.CORR, on),), timing=self._timing())
        others = [Need(random.choice(_KINDS), job_id) for job_id in mine[-6:]]
        others += [Need(random.choice(_KINDS), before, within=True) for before in range(place)]
        needs = random.sample(others, min(len(others), random.choice((0, 0, 1, 1, 2, 4))))
        if happens(random, 0.15):
            needs.append(SINGLETON)
        return replace(spec, name=random.choice(_NAMES), needs=tuple(needs), timing=self._timing())

    def _timing(self) -> Timing | None:
        random, now_ms = self._random, self._door.now_ms()
        begin_ms = random.choice((None, None, None, now_ms + random.randint(-1000, 20_000)))
        deadline_ms = random.choice((None, None, None, None, now_ms + random.randint(2000, 90_000)))
        held_by = self._name if happens(random, 0.15) else None
        timing = Timing(begin_ms, deadline_ms, held_by=held_by)
        return None if timing == Timing() else timing

    async def waver(self, job_id: int, spec: JobSpec) -> None:
        """Once it is there."""
        if spec.series is not None and spec.series.mode is not Mode.WORK_QUEUE:
            self._series[job_id] = spec
        for _ in range(self._random.choice((0, 0, 1, 2))):
            await asyncio.sleep(self._random.choice((0, 0.02, 0.5, 3.0)))
            what = self._random.choice((self._hold, self._release, self._edit))
            await what(job_id)
        if spec.timing is not None and spec.timing.held_by is not None and happens(self._random, 0.7):
            await asyncio.sleep(self._random.choice((0.5, 5.0)))
            await self._release(job_id)

    async def _hold(self, job_id: int) -> None:
        self._trace.add(self._name, f"holds job {job_id}")
        await self._door.ask(lambda store: store.hold([job_id], self._name, self._door.now_ms()))

    async def _release(self, job_id: int) -> None:
        self._trace.add(self._name, f"releases job {job_id}")
        await self._door.ask(lambda store: store.release([job_id], self._name, self._door.now_ms()))

    async def _edit(self, job_id: int) -> None:
        job = await self._door.ask(lambda store: store.job(job_id))
        if job is None:
            return
        self._trace.add(self._name, f"edits job {job_id}")
        after = self._edited(job.spec)
        try:
            await self._door.ask(lambda store: store.edit(job, after, self._name, self._door.now_ms(), {}))
        except (NotWaitingError, ChangedMeanwhileError, QuotaExceededError) as error:
            self._trace.add(self._name, f"is refused: {error}")

    def _edited(self, spec: JobSpec) -> JobSpec:
        random, now_ms = self._random, self._door.now_ms()
        timing = replace(
            spec.timing or Timing(),
            begin_ms=random.choice((None, now_ms + random.randint(0, 10_000))),
            deadline_ms=random.choice((None, now_ms + random.randint(5000, 60_000))),
        )
        small = replace(spec.groups[0].request, cpu_milli=500, gpu_milli=0, gpu_type=None, exclusive=False)
        alone = spec.gang is None and len(spec.groups) == 1
        groups = (replace(spec.groups[0], request=small),) if alone and happens(random, 0.5) else spec.groups
        limit_s = random.choice((None, 2, 60)) if spec.series is None else None
        return replace(
            spec, groups=groups, priority=random.randint(-3, 3), time_limit_s=limit_s, timing=timing
        )
