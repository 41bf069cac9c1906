"""What was decided and reported, on a memory store's state."""

from dataclasses import replace
from functools import singledispatch

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Event, Job, JobSpec
from tgpu.domain.lifecycle import (
    AttemptHappening,
    Happening,
    IllegalMoveError,
    attempt_after,
    task_after,
)
from tgpu.store import event_data
from tgpu.store.memory_state import State
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    Change,
    DeposedError,
    Receipt,
    Started,
    StopOrdered,
    TaskClosed,
)


def commit(state: State, epoch: int, batch: Batch) -> Receipt:
    if epoch != state.epoch:
        raise DeposedError(f"epoch {epoch} is over: {state.epoch} leads by now")
    state.nodes.update({node.node_id: node for node in batch.nodes})
    refused: list[Change] = []
    events: list[Event] = []
    specs: dict[int, JobSpec] = {}
    changes: list[Change] = [
        *batch.started, *batch.stop_ordered, *batch.ended, *batch.closed, *batch.assigned,
    ]  # fmt: skip
    for change in changes:
        try:
            event = _take(change, state, batch.at_ms)
        except IllegalMoveError:
            event = None
        if event is None:
            refused.append(change)
            continue
        events.append(event)
        if isinstance(change, Assigned):
            specs[event.job_id] = state.jobs[event.job_id].spec
    return Receipt(refused, events, specs)


@singledispatch
def _take(change: object, state: State, at_ms: int) -> Event | None:
    """Applies one change and records it; None, or an illegal move, if it does not hold."""
    raise NotImplementedError(change, state, at_ms)


@_take.register
def _start(change: Started, state: State, at_ms: int) -> Event | None:
    attempt = _attempt(state, change.attempt_id)
    if attempt is None:
        return None
    job = state.jobs[change.attempt_id.job_id]
    status = task_after(job.status, Happening.STARTED)
    now = attempt_after(attempt.state, AttemptHappening.STARTED)
    _put_attempt(state, replace(attempt, state=now, started_ms=change.at_ms))
    job = _put_job(state, replace(job, status=status, started_ms=change.at_ms))
    data = event_data.on_started(change.attempt_id.number, attempt.node_id)
    return state.record(at_ms, Happening.STARTED.value, job, change.attempt_id.task_index, data)


@_take.register
def _order_stop(change: StopOrdered, state: State, at_ms: int) -> Event | None:
    attempt = _attempt(state, change.attempt_id)
    if attempt is None:
        return None
    now = attempt_after(attempt.state, AttemptHappening.STOP_ORDERED)
    _put_attempt(state, replace(attempt, state=now, stop_cause=change.cause, stop_by=change.by))
    data = event_data.on_stop_ordered(change, attempt.node_id)
    job = state.jobs[change.attempt_id.job_id]
    return state.record(at_ms, AttemptHappening.STOP_ORDERED.value, job, change.attempt_id.task_index, data)


@_take.register
def _end(change: AttemptEnded, state: State, at_ms: int) -> Event | None:
    attempt = _attempt(state, change.attempt_id)
    if attempt is None:
        return None
    job, ended = state.jobs[change.attempt_id.job_id], change.exit
    now = attempt_after(attempt.state, AttemptHappening.ENDED)
    status = task_after(job.status, change.happening)
    if status.holds_resources:
        return None
    started_ms = ended.started_ms if attempt.started_ms is None else attempt.started_ms
    _put_attempt(state, replace(attempt, state=now, started_ms=started_ms, exit=ended))
    if status.is_final:
        _finish(
            state,
            replace(
                job,
                status=status,
                cause=ended.cause,
                detail=change.detail or ended.detail,
                exit_code=ended.exit_code,
                started_ms=started_ms,
                ended_ms=ended.ended_ms or at_ms,
            ),
        )
    else:
        _put_job(state, replace(job, status=status, node_id=None, devices=(), started_ms=None))
    data = event_data.on_ended(change, attempt.node_id, attempt.devices)
    return state.record(at_ms, change.happening.value, job, change.attempt_id.task_index, data)


@_take.register
def _close(change: TaskClosed, state: State, at_ms: int) -> Event | None:
    job = _job(state, change.task_id)
    if job is None or not job.status.waits:
        return None
    status = task_after(job.status, change.happening)
    if not status.is_final:
        return None
    _finish(state, replace(job, status=status, cause=change.cause, detail=change.detail, ended_ms=at_ms))
    data = event_data.on_closed(change)
    return state.record(at_ms, change.happening.value, job, change.task_id.task_index, data)


@_take.register
def _assign(change: Assigned, state: State, at_ms: int) -> Event | None:
    attempt_id = change.attempt_id
    job = _job(state, attempt_id.task_id)
    if job is None or job.cancel_by is not None or attempt_id.number != job.attempts + 1:
        return None
    status = task_after(job.status, Happening.ASSIGNED)
    begun = attempt_after(None, AttemptHappening.ASSIGNED)
    attempt = Attempt(attempt_id, begun, change.node_id, change.devices, at_ms)
    state.attempts.setdefault(job.job_id, []).append(attempt)
    job = _put_job(
        state,
        replace(
            job, status=status, attempts=attempt_id.number, node_id=change.node_id, devices=change.devices
        ),
    )
    data = event_data.on_assigned(change)
    return state.record(at_ms, Happening.ASSIGNED.value, job, attempt_id.task_index, data)


def _finish(state: State, job: Job) -> None:
    """The job is over, as it says itself."""
    _put_job(state, job)
    state.live.discard(job.job_id)
    state.release(job.spec)


def _job(state: State, task_id: TaskId) -> Job | None:
    return state.jobs.get(task_id.job_id) if task_id.task_index == 0 else None


def _attempt(state: State, attempt_id: AttemptId) -> Attempt | None:
    if _job(state, attempt_id.task_id) is None:
        return None
    tries = state.attempts.get(attempt_id.job_id, [])
    return tries[attempt_id.number - 1] if 1 <= attempt_id.number <= len(tries) else None


def _put_job(state: State, job: Job) -> Job:
    state.jobs[job.job_id] = job
    return job


def _put_attempt(state: State, attempt: Attempt) -> None:
    state.attempts[attempt.attempt_id.job_id][attempt.attempt_id.number - 1] = attempt
