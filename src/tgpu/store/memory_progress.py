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
from tgpu.domain.quota import Standing
from tgpu.store import event_data, memory_usage
from tgpu.store.book import Lineage, standing_put_back, standing_returned
from tgpu.store.demand import NEVER_RAN, Run, longest_of, whole_run_gpu_ms
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.memory_ledger import MemoryBook
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
from tgpu.store.token_cap import unused


def commit(state: State, epoch: int, batch: Batch) -> Receipt:
    if epoch != state.epoch:
        raise DeposedError(f"epoch {epoch} is over: {state.epoch} leads by now")
    state.nodes.update({node.node_id: node for node in batch.nodes})
    refused: list[Change] = []
    events: list[Event] = []
    specs: dict[int, JobSpec] = {}
    work = _Work(state, batch.at_ms, state.ledger())
    for change in chain.from_iterable(batch.in_order()):
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
        elif isinstance(change, Assigned):
            specs[event.job_id] = state.jobs[event.job_id].spec
    work.ledger.write()
    return Receipt(refused, events, specs)


class _Work(NamedTuple):
    """One commit under way."""

    state: State
    at_ms: int
    ledger: MemoryBook

    def owner(self, job: Job) -> Lineage:
        return self.ledger.of(job.spec.tenant_id)

    def put_task(self, job: Job, standing: Standing, reserved_gpu_ms: int) -> None:
        task = self.state.tasks[job.job_id]
        self.state.tasks[job.job_id] = replace(task, standing=standing, reserved_gpu_ms=reserved_gpu_ms)


@singledispatch
def _take(change: object, work: _Work) -> Event | None:
    """Applies one change and records it; None, or an illegal move, if it does not hold."""
    raise NotImplementedError(change, work)


@_take.register
def _start(change: Started, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job = work.state.jobs[change.attempt_id.job_id]
    status = task_after(job.status, Happening.STARTED)
    now = attempt_after(attempt.state, AttemptHappening.STARTED)
    work.state.put_attempt(replace(attempt, state=now, started_ms=change.at_ms))
    job = _put_job(work.state, replace(job, status=status, started_ms=change.at_ms))
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
    job = work.state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.ENDED)
    status = task_after(job.status, change.happening)
    if attempt.state is AttemptState.LOST and not status.is_final:
        return None
    return _part(change, work, _After(change.happening, status, now))


@_take.register
def _lose(change: AttemptLost, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job = work.state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.LOST)
    status, happening = task_after(job.status, Happening.LOST), Happening.LOST
    if not change.requeue:
        status, happening = task_after(job.status, Happening.FAILED), Happening.FAILED
    return _part(change, work, _After(happening, status, now))


@_take.register
def _return(change: AttemptReturned, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None:
        return None
    job = work.state.jobs[change.attempt_id.job_id]
    now = attempt_after(attempt.state, AttemptHappening.RETURNED)
    status = task_after(job.status, Happening.RETURNED)
    started_ms = change.started_ms if attempt.started_ms is None else attempt.started_ms
    _charge_again(work, job, attempt)
    work.state.put_attempt(
        replace(attempt, state=now, started_ms=started_ms, exit=None, stop_cause=None, stop_by=None)
    )
    job = _put_job(
        work.state,
        replace(job, status=status, node_id=attempt.node_id, devices=attempt.devices, started_ms=started_ms),
    )
    data = event_data.on_returned(change, attempt.node_id, attempt.devices)
    return work.state.record(work.at_ms, Happening.RETURNED.value, job, change.attempt_id.task_index, data)


@_take.register
def _supersede(change: Superseded, work: _Work) -> Event | None:
    attempt = work.state.attempt(change.attempt_id)
    if attempt is None or attempt.stop_cause is Cause.SUPERSEDED:
        return None
    job = work.state.jobs[change.attempt_id.job_id]
    others = [
        other
        for other in work.state.attempts[job.job_id]
        if other.attempt_id != attempt.attempt_id
        and other.state is not AttemptState.ENDED
        and other.stop_cause is not Cause.SUPERSEDED
    ]
    if not (others or job.status.is_final):
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
    if not (
        attempt.state is AttemptState.LOST or attempt.stop_cause is Cause.SUPERSEDED or job.status.is_final
    ):
        return None
    _leave(work.state, attempt, now, change.exit)
    data = event_data.on_gone(change, attempt.node_id, attempt.devices)
    return work.state.record(work.at_ms, AttemptHappening.GONE.value, job, change.attempt_id.task_index, data)


@_take.register
def _close(change: TaskClosed, work: _Work) -> Event | None:
    job = _job(work.state, change.task_id)
    if job is None or not job.status.waits:
        return None
    status = task_after(job.status, change.happening)
    if not status.is_final or change.happening is Happening.SUCCEEDED:
        return None  # only an attempt succeeds
    task = work.state.tasks[job.job_id]
    work.owner(job).close(task.charged)
    _finish(
        work,
        replace(job, status=status, cause=change.cause, detail=change.detail, ended_ms=work.at_ms),
        NEVER_RAN,
    )
    data = event_data.on_closed(change)
    return work.state.record(work.at_ms, change.happening.value, job, change.task_id.task_index, data)


@_take.register
def _assign(change: Assigned, work: _Work) -> Event | None:
    attempt_id = change.attempt_id
    job = _job(work.state, attempt_id.task_id)
    if job is None or job.cancel_by is not None or attempt_id.number != job.attempts + 1:
        return None
    status = task_after(job.status, Happening.ASSIGNED)
    task = work.state.tasks[job.job_id]
    standing = work.owner(job).assign(task.charged, change.admission, change.reserve_gpu_ms)
    if standing is None:
        return None
    work.put_task(job, standing, change.reserve_gpu_ms)
    begun = attempt_after(None, AttemptHappening.ASSIGNED)
    attempt = Attempt(attempt_id, begun, change.node_id, change.devices, work.at_ms)
    work.state.put_attempt(attempt)
    job = _put_job(
        work.state,
        replace(
            job, status=status, attempts=attempt_id.number, node_id=change.node_id, devices=change.devices
        ),
    )
    data = event_data.on_assigned(change)
    return work.state.record(work.at_ms, Happening.ASSIGNED.value, job, attempt_id.task_index, data)


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
    job = work.state.jobs[change.attempt_id.job_id]
    run = Run(attempt.started_ms, change.exit.ended_ms or work.at_ms)
    _settle(work, job, run, tried, over=after.status.is_final)
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
            ended_ms=change.exit.ended_ms or work.at_ms,
        )
        _finish(work, over, run)
    else:
        _put_job(work.state, replace(job, status=after.status, node_id=None, devices=(), started_ms=None))
    data = event_data.on_ended(change, attempt.node_id, attempt.devices)
    return work.state.record(work.at_ms, after.happening.value, job, change.attempt_id.task_index, data)


def _settle(work: _Work, job: Job, run: Run, tried: Attempt, *, over: bool) -> None:
    """What the task was charged for; one that waits had left its node when that was lost."""
    task, owner = work.state.tasks[job.job_id], work.owner(job)
    if job.status.waits:
        owner.close(task.charged)
        owner.count(task.request, run, _counted(tried))
    else:
        owner.part(task.charged, run, _counted(tried), over=over)
    if over:
        work.put_task(job, task.standing, 0)
    else:
        put_back = replace(task, waiting_since_ms=work.at_ms, reserved_gpu_ms=0)
        work.state.tasks[job.job_id] = replace(put_back, standing=standing_put_back(task.standing))


def _charge_again(work: _Work, job: Job, attempt: Attempt) -> None:
    """A task goes on with an attempt that was lost, in its own place or in that of another attempt."""
    task, owner = work.state.tasks[job.job_id], work.owner(job)
    reserved = task.reserved_gpu_ms
    if job.status.waits:
        reserved = whole_run_gpu_ms(task.request, longest_of(job.spec)) or 0
        owner.come_back(task.charged, reserved)
    owner.count(task.request, None, _counted(attempt))
    work.put_task(job, standing_returned(task.standing), reserved)


def _counted(attempt: Attempt) -> Run | None:
    """What was counted of its run, if it is lost."""
    if attempt.state is not AttemptState.LOST or attempt.exit is None:
        return None
    return Run(attempt.started_ms, attempt.exit.ended_ms)


def _finish(work: _Work, job: Job, run: Run) -> None:
    """The job is over, as it says itself."""
    _put_job(work.state, job)
    work.state.live.discard(job.job_id)
    task = work.state.tasks[job.job_id]
    if task.token_id is not None:
        work.ledger.give_back(task.token_id, unused(task.request, longest_of(job.spec), run))


def _job(state: State, task_id: TaskId) -> Job | None:
    return state.jobs.get(task_id.job_id) if task_id.task_index == 0 else None


def _put_job(state: State, job: Job) -> Job:
    state.jobs[job.job_id] = job
    return job
