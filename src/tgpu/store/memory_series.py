"""Jobs of very many tasks in a memory store: rows that appear as needed, and wishes for some tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Event, Exit, Job
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, Status
from tgpu.domain.quota import Standing
from tgpu.domain.timing import Timing
from tgpu.store import event_data, timings
from tgpu.store.book import NoRoomError
from tgpu.store.demand import NEVER_RAN, longest_of
from tgpu.store.growth import NOBODY, Skipped, as_many, next_ones
from tgpu.store.memory_jobs import JobRows
from tgpu.store.memory_ledger import MemoryBook, MemoryTask
from tgpu.store.memory_needs import alter
from tgpu.store.memory_state import State
from tgpu.store.port import DeposedError
from tgpu.store.series_port import MOST_SKIPPED, Dropped, Grown, GrownTo
from tgpu.store.token_cap import unused

T = TypeVar("T")


class MemorySeries(ABC):
    _state: State

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        """The effect, with a moment for others before and after it."""

    async def cancel_tasks(
        self, job_id: int, positions: IndexSet, by: str, at_ms: int, *, now: bool = False
    ) -> Job | None:
        return await self._once(lambda: _cancel(self._state, job_id, positions, (by, at_ms, now)), wakes=True)

    async def restart_tasks(self, job_id: int, positions: Sequence[int], by: str, at_ms: int) -> list[int]:
        return await self._once(lambda: _restart(self._state, job_id, positions, (by, at_ms)), wakes=True)

    async def suspend(self, job_id: int, by: str, at_ms: int) -> Job | None:
        def then(job: Job) -> Timing | None:
            return timings.suspended(job, by)

        return await self._once(
            lambda: alter(self._state, [job_id], then, (at_ms, event_data.SUSPENDED, by))[0], wakes=True
        )

    async def forget(self, epoch: int, at_ms: int, most: int = 100) -> int:
        return await self._once(lambda: _forget(self._state, epoch, at_ms, most))

    async def resume(self, job_id: int, by: str, at_ms: int) -> Job | None:
        def then(job: Job) -> Timing | None:
            return timings.resumed(job, at_ms)

        return await self._once(
            lambda: alter(self._state, [job_id], then, (at_ms, event_data.RESUMED, by))[0], wakes=True
        )


def _cancel(state: State, job_id: int, positions: IndexSet, how: tuple[str, int, bool]) -> Job | None:
    before = state.job(job_id)
    if before is None or before.status.is_final:
        return before
    by, at_ms, now = how
    for task_id, task in state.tasks_of(job_id):
        if task_id.task_index in positions and not task.status.is_final:
            state.tasks[task_id] = replace(task, cancel_by=task.cancel_by or by)
    if before.born is not None and positions.highest >= before.born:
        state.skipped[job_id] = state.skipped.get(job_id, NOBODY).and_these(by, positions)
    data = event_data.on_tasks_cancel_requested(by, positions, now=now)
    state.record(at_ms, event_data.CANCEL_REQUESTED, before, None, data)
    return before


def _restart(state: State, job_id: int, positions: Sequence[int], how: tuple[str, int]) -> list[int]:
    by, at_ms = how
    wanted = set(positions)
    found = [
        task_id
        for task_id, task in state.tasks_of(job_id)
        if task_id.task_index in wanted and task.status.holds_resources and task.restart_by is None
    ]
    for task_id in found:
        state.tasks[task_id] = replace(state.tasks[task_id], restart_by=by)
        job = state.jobs[job_id]
        state.record(at_ms, event_data.RESTART_REQUESTED, job, task_id.task_index, {"by": by})
    return [task_id.task_index for task_id in found]


def grow(
    state: State, grown: Sequence[Grown], at_ms: int, ledger: MemoryBook, rows: JobRows
) -> tuple[list[GrownTo], list[Event]]:
    """And what happened to those that were cancelled before they had rows."""
    before = state.last_seq
    found = [_grow(state, each, at_ms, ledger, rows) for each in grown if each.job_id in state.jobs]
    return found, state.events_after(before)


def _grow(state: State, grown: Grown, at_ms: int, ledger: MemoryBook, rows: JobRows) -> GrownTo:
    job = state.jobs[grown.job_id]
    born = job.spec.task_count if job.born is None else job.born
    unborn = 0 if job.cancel_by is not None or job.dropped else job.spec.task_count - born
    skipped = state.skipped.get(job.job_id, NOBODY)
    passed_over = _count(state, job, skipped, at_ms, ledger, rows) if unborn and skipped.wishes else 0
    wanted: list[str | None] = []
    if passed_over < unborn or passed_over <= MOST_SKIPPED:
        wanted = next_ones(skipped, born, born + unborn, grown.count, MOST_SKIPPED)
    asked, standing = wanted.count(None), Standing.CHARGED
    tenants = ledger.of(job.spec.tenant_id)
    if asked:
        try:
            asked, standing = as_many(
                tenants, job.spec.groups[0].request, asked, job.spec.priority_class, known=True
            )
        except NoRoomError:
            asked = 0
    request = tenants.kept(job.spec.groups[0].request)
    fresh: list[TaskId] = []
    token_id = state.tasks[TaskId(job.job_id, 0)].token_id
    for position, by in enumerate(wanted, born):
        if by is None and len(fresh) == asked:
            break
        task_id = TaskId(job.job_id, position)
        born = position + 1
        state.tasks[task_id] = MemoryTask(request, standing, at_ms, token_id=token_id)
        if by is None:
            state.live.add(task_id)
            fresh.append(task_id)
        else:
            _close_unborn(state, task_id, by, at_ms)
    state.jobs[job.job_id] = replace(state.jobs[job.job_id], born=born)
    left = state.skipped.get(job.job_id, NOBODY).counted
    if unborn and left and left == job.spec.task_count - born:
        gone = Dropped(job.job_id, Cause.CANCELLED, f"cancelled by {skipped.by}")
        drop(state, [gone], at_ms, ledger, rows)  # all that are left were cancelled: none gets a row
        born = job.spec.task_count
    return GrownTo(job.job_id, born, [state.brief(task_id) for task_id in fresh])


def _count(  # noqa: PLR0917  what a commit works on
    state: State, job: Job, skipped: Skipped, at_ms: int, ledger: MemoryBook, rows: JobRows
) -> int:
    """Those that somebody cancelled count as that from now on, whether they have rows or not; they were
    never charged for. Returns how many there are without rows."""
    number = skipped.number_between(job.born or 0, job.spec.task_count)
    new = number - skipped.counted
    how = Exit(Cause.CANCELLED, detail=f"cancelled by {skipped.by}", ended_ms=at_ms)
    rows.passed_over(job.job_id, new, how)
    _give_back(state, job, new, ledger)
    state.skipped[job.job_id] = Skipped(skipped.wishes, number)
    return number


def _give_back(state: State, job: Job, tasks: int, ledger: MemoryBook) -> None:
    token_id = state.tasks[TaskId(job.job_id, 0)].token_id
    if token_id is not None:
        ledger.give_back(
            token_id, tasks * unused(job.spec.groups[0].request, longest_of(job.spec), NEVER_RAN)
        )


def _close_unborn(state: State, task_id: TaskId, by: str, at_ms: int) -> None:
    """It gets a row after it was counted."""
    skipped = state.skipped[task_id.job_id]
    state.skipped[task_id.job_id] = Skipped(skipped.wishes, skipped.counted - 1)
    detail = f"cancelled by {by}"
    task = state.tasks[task_id]
    state.tasks[task_id] = replace(
        task, status=Status.CANCELLED, cause=Cause.CANCELLED, detail=detail, cancel_by=by
    )
    data: event_data.Data = {"cause": Cause.CANCELLED.value, "detail": detail}
    state.record(at_ms, Happening.CANCELLED.value, state.jobs[task_id.job_id], task_id.task_index, data)


def drop(
    state: State, dropped: Sequence[Dropped], at_ms: int, ledger: MemoryBook, rows: JobRows
) -> list[Event]:
    events: list[Event] = []
    for each in dropped:
        job = state.jobs.get(each.job_id)
        if job is None or job.born is None or job.dropped or job.born == job.spec.task_count:
            continue
        tasks, counted = job.spec.task_count - job.born, state.skipped.get(each.job_id, NOBODY).counted
        how = Exit(each.cause, detail=each.detail, ended_ms=at_ms)
        rows.dropped(each.job_id, tasks, how, counted=counted)
        _give_back(state, job, tasks - counted, ledger)
        data = event_data.on_dropped(each, tasks)
        events.append(state.record(at_ms, event_data.DROPPED, job, None, data))
    return events


def _forget(state: State, epoch: int, at_ms: int, most: int) -> int:
    if epoch != state.epoch:
        raise DeposedError(f"epoch {epoch} is over: {state.epoch} leads by now")
    waited_for = {
        need.on for job in state.jobs.values() if not job.status.is_final for need in job.spec.needs
    }
    due = [
        job.job_id
        for job in state.jobs.values()
        if job.ended_ms is not None
        and job.spec.ttl_after_finished_s is not None
        and job.ended_ms + 1000 * job.spec.ttl_after_finished_s <= at_ms
        and job.job_id not in waited_for
        and all(attempt.state is AttemptState.ENDED for attempt in state.attempts_of(job.job_id))
    ][:most]
    for job_id in due:
        state.forget(job_id)
    return len(due)
