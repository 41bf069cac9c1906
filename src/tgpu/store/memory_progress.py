"""What was decided and reported, on a memory store's state."""

from dataclasses import replace
from functools import singledispatch
from itertools import chain
from typing import NamedTuple

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, Event, Exit, Job
from tgpu.domain.lifecycle import (
    ENDINGS,
    AttemptHappening,
    AttemptState,
    Cause,
    Happening,
    IllegalMoveError,
    Status,
    attempt_after,
    task_after,
)
from tgpu.domain.quota import Standing
from tgpu.store import event_data, memory_assigning, memory_needs, memory_series, memory_usage
from tgpu.store.book import Lineage, standing_put_back, standing_returned
from tgpu.store.demand import NEVER_RAN, Run, longest_of
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.lost_run import counted
from tgpu.store.memory_jobs import JobRows
from tgpu.store.memory_ledger import MemoryBook, MemoryTask
from tgpu.store.memory_state import State
from tgpu.store.port import (
    AttemptEnded,
    Batch,
    Change,
    DeposedError,
    Receipt,
    Started,
    StopOrdered,
    TaskClosed,
)
from tgpu.store.token_cap import unused


def commit(state: State, epoch: int, batch: Batch) -> Receipt:
    if epoch != state.epoch:
        raise DeposedError(f"epoch {epoch} is over: {state.epoch} leads by now")
    state.nodes.update({node.node_id: node for node in batch.nodes})
    for task_id, at_ms in batch.saved.items():
        if (task := state.tasks.get(task_id)) is not None and at_ms > (task.checkpoint_ms or 0):
            state.tasks[task_id] = replace(task, checkpoint_ms=at_ms)
    refused: list[Change] = []
    events: list[Event] = []
    work = _Work(state, batch.at_ms, state.ledger(), JobRows(state))
    events += memory_needs.meet(state, batch.released, batch.at_ms)
    *others, _ = batch.in_order()
    for change in chain.from_iterable(others):
        try:
            event = _take(change, work)
        except IllegalMoveError:
            event = None
        if event is None:
            refused.append(change)
            continue
        events.append(event)
        if isinstance(change, AttemptEnded | AttemptLost | AttemptGone):
            memory_usage.record(state, change, batch.at_ms)
        elif isinstance(change, AttemptReturned):
            state.usage.pop(change.attempt_id, None)
    taken = memory_assigning.assign(state, batch, work.ledger, work.rows)
    events += taken.values()
    refused += [change for place, change in enumerate(batch.assigned) if place not in taken]
    specs = {event.job_id: state.jobs[event.job_id].spec for event in taken.values()}
    events += memory_series.drop(state, batch.dropped, batch.at_ms, work.ledger, work.rows)
    grown, cancelled = memory_series.grow(state, batch.grown, batch.at_ms, work.ledger, work.rows)
    events += cancelled
    work.ledger.write()
    work.rows.write()
    return Receipt(refused, events, specs, work.rows.statuses, grown)


class _Work(NamedTuple):
    """One commit under way."""

    state: State
    at_ms: int
    ledger: MemoryBook
    rows: JobRows

    def owner(self, job: Job) -> Lineage:
        return self.ledger.of(job.spec.tenant_id)

    def move(self, task_id: TaskId, status: Status) -> MemoryTask:
        """Returns the task as it was."""
        task = self.state.tasks[task_id]
        self.state.tasks[task_id] = replace(task, status=status)
        return task

    def put_task(self, task_id: TaskId, standing: Standing, reserved_gpu_ms: int) -> None:
        task = self.state.tasks[task_id]
        self.state.tasks[task_id] = replace(task, standing=standing, reserved_gpu_ms=reserved_gpu_ms)


@singledispatch
def _take(change: object, work: _Work) -> Event | None:
    """Applies one change and records it; None, or an illegal move, if it does not hold."""
    raise NotImplementedError(change, work)


@_take.register
def _start(change: Started, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job, task_id = work.state.jobs[change.attempt_id.job_id], change.attempt_id.task_id
    status = task_after(work.state.tasks[task_id].status, Happening.STARTED)
    now = attempt_after(attempt.state, AttemptHappening.STARTED)
    work.state.put_attempt(replace(attempt, state=now, started_ms=change.at_ms))
    work.rows.started(change.attempt_id, work.move(task_id, status).status, change.at_ms)
    data = event_data.on_started(change.attempt_id.number, attempt.node_id)
    return work.state.record(work.at_ms, Happening.STARTED.value, job, change.attempt_id.task_index, data)


@_take.register
def _order_stop(change: StopOrdered, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or change.cause is Cause.SUPERSEDED:
        return None  # to be superseded, its task must have another attempt
    now = attempt_after(attempt.state, AttemptHappening.STOP_ORDERED)
    work.state.put_attempt(replace(attempt, state=now, stop_cause=change.cause, stop_by=change.by))
    data = event_data.on_stop_ordered(change, attempt.node_id)
    job = work.state.jobs[change.attempt_id.job_id]
    return work.state.record(
        work.at_ms, AttemptHappening.STOP_ORDERED.value, job, change.attempt_id.task_index, data
    )


@_take.register
def _end(change: AttemptEnded, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED or change.happening not in ENDINGS:
        return None
    now = attempt_after(attempt.state, AttemptHappening.ENDED)
    status = task_after(work.state.tasks[change.attempt_id.task_id].status, change.happening)
    if attempt.state is AttemptState.LOST and not status.is_final:
        return None
    task = work.state.tasks[change.attempt_id.task_id]
    if change.counts:
        work.rows.failed(change.attempt_id.job_id)
    again = replace(task, eligible_ms=change.eligible_ms, failures=task.failures + change.counts)
    work.state.tasks[change.attempt_id.task_id] = again
    return _part(change, work, _After(change.happening, status, now))


@_take.register
def _lose(change: AttemptLost, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    before = work.state.tasks[change.attempt_id.task_id].status
    now = attempt_after(attempt.state, AttemptHappening.LOST)
    status, happening = task_after(before, Happening.LOST), Happening.LOST
    if not change.requeue:
        status, happening = task_after(before, Happening.FAILED), Happening.FAILED
    return _part(change, work, _After(happening, status, now))


@_take.register
def _return(change: AttemptReturned, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None:
        return None
    job, task_id = work.state.jobs[change.attempt_id.job_id], change.attempt_id.task_id
    now = attempt_after(attempt.state, AttemptHappening.RETURNED)
    status = task_after(work.state.tasks[task_id].status, Happening.RETURNED)
    started_ms = change.started_ms if attempt.started_ms is None else attempt.started_ms
    _charge_again(work, job, attempt, change.reserve_gpu_ms)
    runs = replace(attempt, state=now, started_ms=started_ms, exit=None, stop_cause=None, stop_by=None)
    work.state.put_attempt(runs)
    work.rows.returned(runs, work.move(task_id, status).status)
    data = event_data.on_returned(change, attempt.node_id, attempt.devices)
    return work.state.record(work.at_ms, Happening.RETURNED.value, job, change.attempt_id.task_index, data)


@_take.register
def _supersede(change: Superseded, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job, task_id = work.state.jobs[change.attempt_id.job_id], change.attempt_id.task_id
    others = [
        other
        for other in work.state.attempts[task_id]
        if other.attempt_id != attempt.attempt_id
        and other.state is not AttemptState.ENDED
        and other.stop_cause is not Cause.SUPERSEDED
    ]
    if not (others or work.state.tasks[task_id].status.is_final):
        return None
    now = attempt_after(attempt.state, AttemptHappening.SUPERSEDED)
    work.state.put_attempt(replace(attempt, state=now, stop_cause=Cause.SUPERSEDED, stop_by=None))
    data = event_data.on_superseded(change, attempt.node_id)
    return work.state.record(
        work.at_ms, AttemptHappening.SUPERSEDED.value, job, change.attempt_id.task_index, data
    )


@_take.register
def _let_go(change: AttemptGone, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None:
        return None
    job = work.state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.GONE)
    over = work.state.tasks[change.attempt_id.task_id].status.is_final
    if not (attempt.state is AttemptState.LOST or attempt.stop_cause is Cause.SUPERSEDED or over):
        return None
    _leave(work.state, attempt, now, change.exit)
    data = event_data.on_gone(change, attempt.node_id, attempt.devices)
    return work.state.record(work.at_ms, AttemptHappening.GONE.value, job, change.attempt_id.task_index, data)


@_take.register
def _close(change: TaskClosed, work: _Work) -> Event | None:
    task = work.state.tasks.get(change.task_id)
    if task is None or not task.status.waits:
        return None
    status = task_after(task.status, change.happening)
    if not status.is_final or change.happening is Happening.SUCCEEDED:
        return None  # only an attempt succeeds
    job = work.state.jobs[change.task_id.job_id]
    work.owner(job).close(task.charged)
    how = Exit(change.cause, detail=change.detail, ended_ms=work.at_ms)
    work.state.tasks[change.task_id] = replace(task, cause=change.cause, detail=change.detail)
    work.rows.closed(job.job_id, work.move(change.task_id, status).status, status, how)
    _finish(work, change.task_id, NEVER_RAN)
    data = event_data.on_closed(change)
    return work.state.record(work.at_ms, change.happening.value, job, change.task_id.task_index, data)


def _leave(state: State, attempt: Attempt, now: AttemptState, ended: Exit) -> Attempt:
    """The attempt holds nothing any more."""
    started_ms = ended.started_ms if attempt.started_ms is None else attempt.started_ms
    left = replace(attempt, state=now, started_ms=started_ms, exit=ended)
    state.put_attempt(left)
    return left


class _After(NamedTuple):
    """What happened to a task, and where it and its attempt stand then."""

    happening: Happening
    status: Status
    state: AttemptState


def _part(change: AttemptEnded | AttemptLost, work: _Work, after: _After) -> Event:
    """The task leaves its attempt: it waits again, or is over."""
    tried = work.state.attempt(change.attempt_id)
    assert tried is not None
    attempt = _leave(work.state, tried, after.state, change.exit)
    job, task_id = work.state.jobs[change.attempt_id.job_id], change.attempt_id.task_id
    run = Run(attempt.started_ms, change.exit.ended_ms or work.at_ms)
    _settle(work, task_id, run, tried, over=after.status.is_final)
    before = work.move(task_id, after.status).status
    if after.status.is_final:
        told = change.detail or change.exit.detail
        how = replace(change.exit, detail=told, ended_ms=change.exit.ended_ms or work.at_ms)
        work.rows.ended(attempt, before, after.status, how, change.fails_job)
        _finish(work, task_id, run)
    else:
        work.rows.put_back(job.job_id, before, after.status)
    data = event_data.on_ended(change, attempt.node_id, attempt.devices)
    return work.state.record(work.at_ms, after.happening.value, job, change.attempt_id.task_index, data)


def _settle(work: _Work, task_id: TaskId, run: Run, tried: Attempt, *, over: bool) -> None:
    """What the task was charged for; one that waits had left its node when that was lost."""
    task, owner = work.state.tasks[task_id], work.owner(work.state.jobs[task_id.job_id])
    if task.status.waits:
        owner.close(task.charged)
        owner.count(task.request, run, counted(tried))
    else:
        owner.part(task.charged, run, counted(tried), over=over)
    if over:
        work.put_task(task_id, task.standing, 0)
    else:
        put_back = replace(task, waiting_since_ms=work.at_ms, reserved_gpu_ms=0, restart_by=None)
        work.state.tasks[task_id] = replace(put_back, standing=standing_put_back(task.standing))


def _charge_again(work: _Work, job: Job, attempt: Attempt, reserve_gpu_ms: int) -> None:
    """A task goes on with an attempt that was lost, in its own place or in that of another attempt."""
    task_id = attempt.attempt_id.task_id
    task, owner = work.state.tasks[task_id], work.owner(job)
    reserved = task.reserved_gpu_ms
    if task.status.waits:
        reserved = reserve_gpu_ms
        owner.come_back(task.charged, reserved)
    owner.count(task.request, None, counted(attempt))
    work.put_task(task_id, standing_returned(task.standing), reserved)


def _finish(work: _Work, task_id: TaskId, run: Run) -> None:
    """The task is over."""
    work.state.live.discard(task_id)
    task = work.state.tasks[task_id]
    if task.token_id is not None:
        spec = work.state.jobs[task_id.job_id].spec
        work.ledger.give_back(task.token_id, unused(task.request, longest_of(spec), run))
