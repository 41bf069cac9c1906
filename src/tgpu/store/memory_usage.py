"""What attempts were given and used, on a memory store's state."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from tgpu.domain.charges import charged_gpu_milli
from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Exit
from tgpu.domain.lifecycle import Status
from tgpu.domain.tenant import is_within
from tgpu.domain.usage import Owner, Times, Usage, cut_of, models_of, usage_of
from tgpu.domain.utilization import AllocationSteps
from tgpu.store.allocation import AllocationSum
from tgpu.store.left import Left, tells_less, thrown_away_ms
from tgpu.store.memory_state import State
from tgpu.store.timeline_port import Load, Occupation, Occupations, TimelineFilter
from tgpu.store.usage_port import GroupBy, ReportDetail, ReportFilter, ReportRow
from tgpu.store.usage_sums import DetailTally, Tally, dimensions_of, gpu_ms_after, is_wanted

T = TypeVar("T")


def record(state: State, change: Left, at_ms: int) -> None:
    """Of an attempt that holds nothing any more: after everything else is written of it."""
    attempt = state.attempt(change.attempt_id)
    assert attempt is not None, "whoever ended it has seen it"
    if change.attempt_id in state.usage and tells_less(change):
        return
    spent = _used(state, attempt, change.exit.ended_ms or at_ms, change.exit)
    state.usage[change.attempt_id] = replace(spent, lost_ms=thrown_away_ms(change, spent))


def report(state: State, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int) -> list[ReportRow]:
    tally = Tally(where, by)
    for spent in _everything(state, now_ms):
        tally.add(spent)
    return tally.rows()


def report_details(
    state: State, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int
) -> dict[tuple[str, ...], ReportDetail]:
    tally = DetailTally(where, by)
    for spent in _everything(state, now_ms):
        if not is_wanted(where, dimensions_of(spent)):
            continue
        tally.add_wait(spent)
        if spent.cause is not None and state.tasks[spent.attempt_id.task_id].status is Status.FAILED:
            key = tally.key_of(dimensions_of(spent))
            tally.add_failed(key, spent.started_ms, spent.ended_ms, spent.gpu_milli)
    return tally.details


def gpu_ms_since(state: State, since_ms: Mapping[str, int], now_ms: int) -> dict[str, int]:
    totals = dict.fromkeys(since_ms, 0)
    for spent in _everything(state, now_ms):
        for top, from_ms in since_ms.items():
            if is_within(spent.tenant_id, top):
                totals[top] += gpu_ms_after(cut_of(spent), from_ms)
    return totals


def of_job(state: State, job_id: int) -> list[Usage]:
    return [spent for attempt_id, spent in sorted(state.usage.items()) if attempt_id.job_id == job_id]


def allocation(state: State, times: tuple[int, int, int], node_id: str | None) -> AllocationSteps:
    """`times`: from, until, and the length of a step."""
    found = AllocationSum(*times)
    for spent in _everything(state, times[1]):
        if node_id in (None, spent.node_id):
            amounts = spent.cpu_milli, spent.memory_mib, spent.gpu_milli
            found.add_attempt(spent.started_ms, spent.ended_ms, amounts)
    return found.averages()


def _everything(state: State, now_ms: int) -> Iterator[Usage]:
    yield from state.usage.values()
    for attempt in state.live_attempts():
        if attempt.started_ms is not None:
            yield _used(state, attempt, now_ms, None)


def _used(state: State, attempt: Attempt, ended_ms: int, end: Exit | None) -> Usage:
    job_id, task_index, number = attempt.attempt_id
    job = state.jobs[job_id]
    if number == 1:
        waiting_since_ms = job.submitted_ms
    else:  # the one before may have returned: then it is not over, and when this one began to wait is unknown
        before = state.usage.get(AttemptId(job_id, task_index, number - 1))
        waiting_since_ms = attempt.assigned_ms if before is None else before.ended_ms
    node = state.nodes.get(attempt.node_id)
    place = (attempt.node_id, "" if node is None else node.pool, models_of(node, attempt.devices))
    request = job.spec.group_of(task_index).request
    owner = Owner(job.spec.user, job.spec.tenant_id, job.spec.priority_class, request)
    return usage_of(
        attempt.attempt_id, owner, place, Times(waiting_since_ms, attempt.started_ms, ended_ms), end
    )


def occupations(state: State, where: TimelineFilter, most: int, bins: int, now_ms: int) -> Occupations:
    live = [_held(state, attempt) for attempt in state.live_attempts()]
    live = [one for one in live if one.started_ms < where.until_ms and _is_wanted(where, one)]
    found = [
        _was_held(state, spent)
        for spent in state.usage.values()
        if spent.ended_ms >= where.from_ms and spent.started_ms < where.until_ms
    ]
    finished = [one for one in found if _is_wanted(where, one)]
    if len(live) + len(finished) <= most:
        return Occupations([*finished, *live])
    load, shown = Load(where, bins), live if len(live) <= most else []
    for one in (*finished, *(() if shown else live)):
        ended_ms = now_ms if one.ended_ms is None else one.ended_ms
        load.add(one.node_id, one.started_ms, ended_ms, one.gpu_milli, one.cpu_milli)
    return Occupations(shown, load.by_node, is_summed=True)


def _is_wanted(where: TimelineFilter, one: Occupation) -> bool:
    return (where.node_ids is None or one.node_id in where.node_ids) and (
        where.seen is None or where.seen.has(one.user, one.tenant_id)
    )


def _was_held(state: State, spent: Usage) -> Occupation:
    attempt = state.attempt(spent.attempt_id)
    return Occupation(
        spent.attempt_id,
        spent.node_id,
        () if attempt is None else attempt.devices,
        spent.user,
        spent.tenant_id,
        state.jobs[spent.attempt_id.job_id].spec.name,
        spent.gpu_milli,
        spent.cpu_milli,
        spent.started_ms,
        spent.ended_ms,
        spent.cause,
        has_failed=attempt is not None and attempt.exit is not None and bool(attempt.exit.exit_code),
    )


def _held(state: State, attempt: Attempt) -> Occupation:
    spec = state.jobs[attempt.attempt_id.job_id].spec
    request = spec.group_of(attempt.attempt_id.task_index).request
    return Occupation(
        attempt.attempt_id,
        attempt.node_id,
        attempt.devices,
        spec.user,
        spec.tenant_id,
        spec.name,
        charged_gpu_milli(request),
        request.cpu_milli,
        attempt.assigned_ms if attempt.started_ms is None else attempt.started_ms,
        cause=attempt.stop_cause,
        is_starting=attempt.started_ms is None,
        time_limit_s=spec.time_limit_s,
    )


class MemoryUsage(ABC):
    _state: State

    @abstractmethod
    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T: ...

    async def report(self, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int) -> list[ReportRow]:
        return await self._once(lambda: report(self._state, where, by, now_ms))

    async def report_details(
        self, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int
    ) -> dict[tuple[str, ...], ReportDetail]:
        return await self._once(lambda: report_details(self._state, where, by, now_ms))

    async def gpu_ms_since(self, since_ms: Mapping[str, int], now_ms: int) -> dict[str, int]:
        return await self._once(lambda: gpu_ms_since(self._state, since_ms, now_ms))

    async def allocation(
        self, from_ms: int, until_ms: int, step_ms: int, node_id: str | None = None
    ) -> AllocationSteps:
        return await self._once(lambda: allocation(self._state, (from_ms, until_ms, step_ms), node_id))

    async def usage(self, job_id: int, most: int = 100_000) -> list[Usage]:
        return await self._once(lambda: of_job(self._state, job_id)[:most])

    async def occupations(self, where: TimelineFilter, most: int, bins: int, now_ms: int) -> Occupations:
        return await self._once(lambda: occupations(self._state, where, most, bins, now_ms))
