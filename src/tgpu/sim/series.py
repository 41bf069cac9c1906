"""What users do with jobs of many tasks: submit them, cancel some tasks, suspend, resume, start anew, and let
more or fewer of them run at once."""

import asyncio
import contextlib
from dataclasses import replace
from random import Random

from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import JobSpec, Request
from tgpu.domain.retries import FailureAction, FailureRule, Retries
from tgpu.domain.series import Mode, Series
from tgpu.sim.chance import happens
from tgpu.sim.door import Door
from tgpu.sim.trace import Trace
from tgpu.store.needs_port import ChangedMeanwhileError, NotWaitingError


def as_series(random: Random, spec: JobSpec) -> JobSpec:
    """The same job as many small tasks."""
    mode = random.choice((Mode.ARRAY, Mode.ARRAY, Mode.INDEXED, Mode.WORK_QUEUE))
    tasks = random.choice((1, 2, 5, 20, 90)) if mode is not Mode.WORK_QUEUE else random.choice((1, 3))
    at_once = None if mode is Mode.WORK_QUEUE else random.choice((None, 1, 3, 10))
    request = Request(cpu_milli=random.choice((250, 500)), gpu_milli=0)
    runs_ms = random.randint(20, 1500)
    code = random.choice((0, 0, 0, 1))
    argv = ("simulated", str(runs_ms), str(code), "100", "yes")
    own = Random(" ".join(argv))  # noqa: S311  chance of its own: the others do what they always did
    group = replace(spec.groups[0], command=argv, request=request, tasks=tasks)
    return replace(
        spec,
        groups=(group,),
        gang=None,
        max_wait_s=own.choice((None, None, None, 2, 20)),
        time_limit_s=None,
        series=Series(IndexSet(((5, 5 + 2 * tasks - 2, 2 if tasks > 1 else 1),)), at_once, mode),
        retries=_retries(random),
        active_deadline_s=random.choice((None, None, None, 60)),
    )


def _retries(random: Random) -> Retries | None:
    rule = FailureRule(random.choice((FailureAction.FAIL_JOB, FailureAction.FAIL_INDEX)), exit_codes=(1,))
    return random.choice(
        (None, Retries(0), Retries(2), Retries(None, 1), Retries(max_failures=2), Retries(3, rules=(rule,)))
    )


class Meddler:
    """Somebody who cannot leave jobs alone."""

    def __init__(self, random: Random, door: Door, trace: Trace) -> None:
        self._random, self._door, self._trace = random, door, trace

    async def meddle(self, job_id: int, spec: JobSpec) -> None:
        """A gang is stopped whole or not at all."""
        some = ("suspend",) if spec.gang is not None else ("cancel", "restart", "suspend", "pace")
        what = self._random.choice(some)
        at = IndexSet.of(self._random.sample(range(30), 5))
        self._trace.add("meddler", f"job {job_id}: {what}")
        now_ms = self._door.now_ms()
        if what == "cancel":
            await self._door.ask(lambda store: store.cancel_tasks(job_id, at, "meddler", now_ms))
        elif what == "restart":
            await self._door.ask(lambda store: store.restart_tasks(job_id, list(at), "meddler", now_ms))
        elif what == "pace":
            await self._pace(job_id)
        else:
            await self._door.ask(lambda store: store.suspend(job_id, "meddler", now_ms))
            await asyncio.sleep(self._random.choice((0, 0.5, 8)))
            await self._door.ask(lambda store: store.resume(job_id, "meddler", self._door.now_ms()))

    async def _pace(self, job_id: int) -> None:
        job = await self._door.ask(lambda store: store.job(job_id))
        series = None if job is None else job.spec.series
        if job is None or series is None or series.mode is Mode.WORK_QUEUE:
            return
        paced = replace(job.spec, series=replace(series, at_once=self._random.choice((None, 1, 2, 5))))
        with contextlib.suppress(NotWaitingError, ChangedMeanwhileError):
            await self._door.ask(lambda store: store.edit(job, paced, "meddler", self._door.now_ms(), {}))

    def wants_to(self) -> bool:
        return happens(self._random, 0.4)
