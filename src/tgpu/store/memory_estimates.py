"""Estimates of starts, on a memory store's state."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from tgpu.domain.command_signature import signature_of
from tgpu.domain.start_estimate import SCORED_KEPT, StartEstimate
from tgpu.store.estimate_port import MOST_TASKS_OF_A_JOB, EstimateChanges, PastRun
from tgpu.store.memory_state import State
from tgpu.store.port import DeposedError

T = TypeVar("T")


class MemoryEstimates(ABC):
    _state: State

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T: ...

    async def note_start_estimates(self, epoch: int, changes: EstimateChanges) -> None:
        await self._once(lambda: note(self._state, epoch, changes))

    async def start_estimates(self) -> list[StartEstimate]:
        return await self._once(
            lambda: sorted(self._state.start_estimates.values(), key=lambda each: each.job_id)
        )

    async def scored_start_estimates(self) -> list[StartEstimate]:
        return [each for each in await self.start_estimates() if each.started_ms is not None]

    async def recent_runs(self, limit: int) -> list[PastRun]:
        return await self._once(lambda: recent_runs(self._state, limit))


def note(state: State, epoch: int, changes: EstimateChanges) -> None:
    if epoch != state.epoch:
        raise DeposedError(f"epoch {epoch} is over: {state.epoch} leads by now")
    known = state.start_estimates
    for made in changes.made:
        known.setdefault(made.job_id, made)
    for job_id, at_ms in changes.started:
        if job_id in known and known[job_id].started_ms is None:
            known[job_id] = replace(known[job_id], started_ms=at_ms)
    for job_id in changes.dropped:
        if job_id in known and known[job_id].started_ms is None:
            del known[job_id]
    scored = sorted(
        (each.started_ms, job_id) for job_id, each in known.items() if each.started_ms is not None
    )
    for _, job_id in scored[: max(0, len(scored) - SCORED_KEPT)]:
        del known[job_id]


def recent_runs(state: State, limit: int) -> list[PastRun]:
    over = [
        ((job.ended_ms, job.job_id, attempt_id.task_index, attempt_id.number), job, used)
        for attempt_id, used in state.usage.items()
        if (job := state.jobs.get(attempt_id.job_id)) is not None
        and job.ended_ms is not None
        and attempt_id.task_index < MOST_TASKS_OF_A_JOB
    ]
    over.sort(key=lambda item: item[0])
    return [
        PastRun(
            job.spec.user,
            job.spec.name,
            signature_of(job.spec),
            used.gpu_milli,
            job.spec.time_limit_s,
            used.run_ms,
            used.cause,
        )
        for _, job, used in over[max(0, len(over) - limit) :]
    ]
