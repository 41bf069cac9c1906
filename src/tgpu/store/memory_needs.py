"""Jobs that wait for others, are held, or are changed while they wait, in a memory store."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tgpu.domain.job import Event, Job, JobSpec
from tgpu.domain.timing import Timing
from tgpu.store import event_data, timings
from tgpu.store.acceptance import recharge
from tgpu.store.growth import same_but_at_once
from tgpu.store.memory_state import State
from tgpu.store.needs_port import ChangedMeanwhileError, NeedRow, NotWaitingError
from tgpu.store.token_cap import check_editor

T = TypeVar("T")


class MemoryNeeds(ABC):
    _state: State

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        """The effect, with a moment for others before and after it."""

    async def hold(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        def then(job: Job) -> Timing | None:
            return timings.held(job.timing, by) if timings.may_be_held(job) else None

        return await self._once(
            lambda: alter(self._state, job_ids, then, (at_ms, event_data.HELD, by)), wakes=True
        )

    async def release(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        def then(job: Job) -> Timing | None:
            if job.timing is None or not timings.is_held(job) or job.status.is_final:
                return None
            return timings.released(job.timing, at_ms)

        return await self._once(
            lambda: alter(self._state, job_ids, then, (at_ms, event_data.RELEASED, by)), wakes=True
        )

    async def edit(  # noqa: PLR0917  as the port has it
        self,
        before: Job,
        spec: JobSpec,
        by: str,
        at_ms: int,
        told: Mapping[str, object],
        token_id: int | None = None,
    ) -> Job:
        return await self._once(
            lambda: _edit(self._state, before, spec, at_ms, {"by": by, **told}, token_id), wakes=True
        )

    async def needs_around(self, job_ids: Sequence[int]) -> list[NeedRow]:
        def around() -> list[NeedRow]:
            wanted = set(job_ids)
            theirs = {
                job.job_id
                for job in self._state.jobs.values()
                if job.job_id in wanted or any(need.on in wanted for need in job.spec.needs)
            }
            found = set(self._state.needs_of(theirs))
            return sorted(
                (row for row in found if row.job_id in wanted or row.on in wanted), key=lambda row: row[:3]
            )

        return await self._once(around)


def alter(
    state: State,
    job_ids: Sequence[int],
    then: Callable[[Job], Timing | None],
    how: tuple[int, str, str],
) -> list[Job | None]:
    """`then`: what holds the job back from now on; None: it stays as it is. `how`: when, by which event, and
    by whom."""
    before = [state.job(job_id) for job_id in job_ids]
    at_ms, kind, by = how
    for job_id in dict.fromkeys(job_ids):
        job = state.jobs.get(job_id)
        timing = None if job is None else then(job)
        if job is not None and timing is not None:
            job = state.jobs[job_id] = replace(job, timing=timing)
            state.changed_seq[job_id] = state.record(at_ms, kind, job, None, {"by": by}).seq
    return before


def _edit(  # noqa: PLR0917  what becomes of what
    state: State, before: Job, spec: JobSpec, at_ms: int, told: event_data.Data, editor_id: int | None
) -> Job:
    job = state.jobs.get(before.job_id)
    if job is None or job.spec != before.spec:
        raise ChangedMeanwhileError(f"job {before.job_id} was changed meanwhile: look at it again")
    if same_but_at_once(job.spec, spec) and not job.status.is_final:
        check_editor(editor_id, state.tasks[job.task_id].token_id)
        return _edited(state, replace(job, spec=spec), at_ms, told)
    if not all(each.waits for each, number in job.task_counts.items() if number):
        raise NotWaitingError(job)
    tasks = {task_id: state.tasks[task_id] for task_id in sorted(state.live) if task_id.job_id == job.job_id}
    groups = {task_id: spec.group_index_of(task_id.task_index) for task_id in tasks}
    ledger = state.ledger()
    token_id = next(iter(tasks.values())).token_id
    check_editor(editor_id, token_id)
    waiting = [(groups[task_id], task.charged) for task_id, task in tasks.items()]
    anew = recharge(ledger.book, job.spec, spec, waiting, ledger.cap(token_id), ledger.shown)
    ledger.write()
    for task_id, task in tasks.items():
        request, standing = anew.requests[groups[task_id]], anew.standing or task.standing
        state.tasks[task_id] = replace(task, request=request, standing=standing)
    return _edited(state, replace(job, spec=spec, timing=timings.edited(job.timing, spec)), at_ms, told)


def _edited(state: State, job: Job, at_ms: int, told: event_data.Data) -> Job:
    state.jobs[job.job_id] = job
    state.changed_seq[job.job_id] = state.record(at_ms, event_data.EDITED, job, None, told).seq
    return state.shown(job)


def meet(state: State, job_ids: Iterable[int], at_ms: int) -> list[Event]:
    """These need not wait for others any more."""
    events: list[Event] = []
    for job_id in job_ids:
        job = state.jobs.get(job_id)
        if job is not None and job.timing is not None and job.timing.unmet:
            state.jobs[job_id] = replace(job, timing=timings.met(job.timing, at_ms))
            events.append(state.record(at_ms, event_data.NEEDS_MET, job, None, {}))
    return events
