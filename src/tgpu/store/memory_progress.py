"""What was decided and reported, on a memory store's state."""

from dataclasses import replace
from functools import singledispatch
from itertools import chain
from typing import NamedTuple

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt, Event, Exit, Job, JobSpec
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
from tgpu.store import event_data
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
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
    for change in chain.from_iterable(batch.in_order()):
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
    attempt = state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job = state.jobs[change.attempt_id.job_id]
    status = task_after(job.status, Happening.STARTED)
    now = attempt_after(attempt.state, AttemptHappening.STARTED)
    state.put_attempt(replace(attempt, state=now, started_ms=change.at_ms))
    job = _put_job(state, replace(job, status=status, started_ms=change.at_ms))
    data = event_data.on_started(change.attempt_id.number, attempt.node_id)
    return state.record(at_ms, Happening.STARTED.value, job, change.attempt_id.task_index, data)


@_take.register
def _order_stop(change: StopOrdered, state: State, at_ms: int) -> Event | None:
    attempt = state.attempt(change.attempt_id)
    if attempt is None or change.cause is Cause.SUPERSEDED:
        return None  # to be superseded, its task must have another attempt
    now = attempt_after(attempt.state, AttemptHappening.STOP_ORDERED)
    state.put_attempt(replace(attempt, state=now, stop_cause=change.cause, stop_by=change.by))
    data = event_data.on_stop_ordered(change, attempt.node_id)
    job = state.jobs[change.attempt_id.job_id]
    return state.record(at_ms, AttemptHappening.STOP_ORDERED.value, job, change.attempt_id.task_index, data)


@_take.register
def _end(change: AttemptEnded, state: State, at_ms: int) -> Event | None:
    attempt = state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED or change.happening not in ENDINGS:
        return None
    job = state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.ENDED)
    status = task_after(job.status, change.happening)
    if attempt.state is AttemptState.LOST and not status.is_final:
        return None
    return _part(change, state, at_ms, _After(change.happening, status, now))


@_take.register
def _lose(change: AttemptLost, state: State, at_ms: int) -> Event | None:
    attempt = state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job = state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.LOST)
    status, happening = task_after(job.status, Happening.LOST), Happening.LOST
    if not change.requeue:
        status, happening = task_after(job.status, Happening.FAILED), Happening.FAILED
    return _part(change, state, at_ms, _After(happening, status, now))


@_take.register
def _return(change: AttemptReturned, state: State, at_ms: int) -> Event | None:
    attempt = state.attempt(change.attempt_id)
    if attempt is None:
        return None
    job = state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.RETURNED)
    status = task_after(job.status, Happening.RETURNED)
    started_ms = change.started_ms if attempt.started_ms is None else attempt.started_ms
    state.put_attempt(
        replace(attempt, state=now, started_ms=started_ms, exit=None, stop_cause=None, stop_by=None)
    )
    job = _put_job(
        state,
        replace(job, status=status, node_id=attempt.node_id, devices=attempt.devices, started_ms=started_ms),
    )
    data = event_data.on_returned(change, attempt.node_id, attempt.devices)
    return state.record(at_ms, Happening.RETURNED.value, job, change.attempt_id.task_index, data)


@_take.register
def _supersede(change: Superseded, state: State, at_ms: int) -> Event | None:
    attempt = state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job = state.jobs[change.attempt_id.job_id]
    others = [
        other
        for other in state.attempts[job.job_id]
        if other.attempt_id != attempt.attempt_id
        and other.state is not AttemptState.ENDED
        and other.stop_cause is not Cause.SUPERSEDED
    ]
    if not (others or job.status.is_final):
        return None
    now = attempt_after(attempt.state, AttemptHappening.SUPERSEDED)
    state.put_attempt(replace(attempt, state=now, stop_cause=Cause.SUPERSEDED, stop_by=None))
    data = event_data.on_superseded(change, attempt.node_id)
    return state.record(at_ms, AttemptHappening.SUPERSEDED.value, job, change.attempt_id.task_index, data)


@_take.register
def _let_go(change: AttemptGone, state: State, at_ms: int) -> Event | None:
    attempt = state.attempt(change.attempt_id)
    if attempt is None:
        return None
    job = state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.GONE)
    if not (
        attempt.state is AttemptState.LOST or attempt.stop_cause is Cause.SUPERSEDED or job.status.is_final
    ):
        return None
    _leave(state, attempt, now, change.exit)
    data = event_data.on_gone(change, attempt.node_id, attempt.devices)
    return state.record(at_ms, AttemptHappening.GONE.value, job, change.attempt_id.task_index, data)


@_take.register
def _close(change: TaskClosed, state: State, at_ms: int) -> Event | None:
    job = _job(state, change.task_id)
    if job is None or not job.status.waits:
        return None
    status = task_after(job.status, change.happening)
    if not status.is_final or change.happening is Happening.SUCCEEDED:
        return None  # only an attempt succeeds
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
    state.put_attempt(attempt)
    job = _put_job(
        state,
        replace(
            job, status=status, attempts=attempt_id.number, node_id=change.node_id, devices=change.devices
        ),
    )
    data = event_data.on_assigned(change)
    return state.record(at_ms, Happening.ASSIGNED.value, job, attempt_id.task_index, data)


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


def _part(change: AttemptEnded | AttemptLost, state: State, at_ms: int, after: _After) -> Event:
    """The task leaves its attempt: it waits again, or is over."""
    attempt = state.attempt(change.attempt_id)
    assert attempt is not None
    attempt = _leave(state, attempt, after.state, change.exit)
    job = state.jobs[change.attempt_id.job_id]
    if after.status.is_final:
        over = replace(
            job,
            status=after.status,
            cause=change.exit.cause,
            detail=change.detail or change.exit.detail,
            exit_code=change.exit.exit_code,
            node_id=attempt.node_id,
            devices=attempt.devices,
            started_ms=attempt.started_ms,
            ended_ms=change.exit.ended_ms or at_ms,
        )
        _finish(state, over)
    else:
        _put_job(state, replace(job, status=after.status, node_id=None, devices=(), started_ms=None))
    data = event_data.on_ended(change, attempt.node_id, attempt.devices)
    return state.record(at_ms, after.happening.value, job, change.attempt_id.task_index, data)


def _finish(state: State, job: Job) -> None:
    """The job is over, as it says itself."""
    _put_job(state, job)
    state.live.discard(job.job_id)
    state.release(job.spec)


def _job(state: State, task_id: TaskId) -> Job | None:
    return state.jobs.get(task_id.job_id) if task_id.task_index == 0 else None


def _put_job(state: State, job: Job) -> Job:
    state.jobs[job.job_id] = job
    return job
