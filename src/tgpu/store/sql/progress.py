"""What was decided and reported: each change is taken if the tables of moves and the current rows allow it.

A change moves its task by an update that names the states it may leave; the row count decides. The task's row
is moved first: whoever moved it may write the rest. The two that every task goes through, its assignment and
its end, read nothing beforehand: what they have to know comes back from the updates.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Event, JobSpec, Request
from tgpu.domain.lifecycle import (
    AttemptHappening,
    AttemptState,
    Happening,
    IllegalMoveError,
    Status,
    attempt_after,
    task_after,
    task_sources,
)
from tgpu.store import event_data
from tgpu.store.demand import demand_by_tenant
from tgpu.store.port import (
    Assigned,
    AttemptEnded,
    Batch,
    Change,
    Receipt,
    Started,
    StopOrdered,
    TaskClosed,
)
from tgpu.store.sql import cluster, codec, feed, moves, tenants
from tgpu.store.sql.session import Query, Session

_Change = TypeVar("_Change", Started, StopOrdered, AttemptEnded, TaskClosed, Assigned)


class RefusedError(Exception):
    """The change no longer holds."""


class _Task(NamedTuple):
    status: str
    request: str
    user: str
    tenant_id: str


class _Attempt(NamedTuple):
    state: str
    node_id: str
    status: str
    user: str


_AFTER_END = {happening: task_after(min(task_sources(happening)), happening) for happening in moves.ENDINGS}
"""Where each ending leads: the same from everywhere, as the table of moves has it."""


def commit(session: Session, epoch: int, batch: Batch) -> Receipt:
    cluster.check_epoch(session, epoch)
    progress = _Progress(session, batch.at_ms)
    for node in batch.nodes:
        cluster.put_node(session, node)
    progress.take(batch.started, progress.start)
    progress.take(batch.stop_ordered, progress.order_stop)
    progress.take(batch.ended, progress.end)
    progress.take(batch.closed, progress.close)
    progress.take(batch.assigned, progress.assign)
    return progress.receipt()


class _Progress:
    """One commit under way."""

    def __init__(self, session: Session, at_ms: int) -> None:
        self._session, self._at_ms = session, at_ms
        self._refused: list[Change] = []
        self._happened: list[tuple[str, TaskId, event_data.Data, str]] = []
        self._over: list[tuple[str, Request]] = []
        self._specs: dict[int, JobSpec] = {}

    def take(self, changes: Sequence[_Change], apply: Callable[[_Change], None]) -> None:
        for change in changes:
            try:
                apply(change)
            except (RefusedError, IllegalMoveError):
                self._refused.append(change)

    def receipt(self) -> Receipt:
        """Gives back quota, numbers and writes the events."""
        tenants.release(self._session, demand_by_tenant(self._over))
        events: list[Event] = []
        if self._happened:
            _, first_seq = cluster.reserve(self._session, 0, len(self._happened))
            events = [
                Event(seq, self._at_ms, kind, *task_id, data, user)
                for seq, (kind, task_id, data, user) in enumerate(self._happened, first_seq)
            ]
            feed.write(self._session, events)
        return Receipt(self._refused, events, self._specs)

    def start(self, change: Started) -> None:
        now = self._attempt(change.attempt_id)
        state = attempt_after(AttemptState(now.state), AttemptHappening.STARTED)
        status = task_after(Status(now.status), Happening.STARTED)
        self._move_task(change.attempt_id.task_id, now.status, status)
        moved = self._move_attempt(
            moves.START_ATTEMPT,
            change.attempt_id,
            old_state=now.state,
            new_state=state.value,
            at=change.at_ms,
        )
        assert moved, "whoever moved the task may move its attempt"
        self._session.change(
            moves.START_JOB, job=change.attempt_id.job_id, new_status=status.value, at=change.at_ms
        )
        data = event_data.on_started(change.attempt_id.number, now.node_id)
        self._record(Happening.STARTED, change.attempt_id.task_id, data, now.user)

    def order_stop(self, change: StopOrdered) -> None:
        now = self._attempt(change.attempt_id)
        state = attempt_after(AttemptState(now.state), AttemptHappening.STOP_ORDERED)
        if not self._move_attempt(
            moves.STOP_ATTEMPT,
            change.attempt_id,
            old_state=now.state,
            new_state=state.value,
            why=change.cause.value,
            who=change.by,
        ):
            raise RefusedError
        data = event_data.on_stop_ordered(change, now.node_id)
        self._record(AttemptHappening.STOP_ORDERED, change.attempt_id.task_id, data, now.user)

    def end(self, change: AttemptEnded) -> None:
        attempt_id, ended = change.attempt_id, change.exit
        if change.happening not in moves.END_TASK:
            raise RefusedError  # nothing is held by an attempt that is over
        job_id, task_index, number = attempt_id
        status = _AFTER_END[change.happening]
        held = self._session.row(
            moves.END_TASK[change.happening],
            job=job_id,
            task=task_index,
            which=number,
            new_status=status.value,
        )
        if held is None:
            raise RefusedError
        node_id, devices, started_ms = self._session.the_row(
            moves.END_ATTEMPT,
            job=job_id,
            task=task_index,
            which=number,
            new_state=AttemptState.ENDED.value,
            begun=ended.started_ms,
            result=codec.text_of(ended),
        )
        if status.is_final:
            user, tenant_id = self._session.the_row(
                moves.END_JOB,
                job=job_id,
                new_status=status.value,
                why=ended.cause.value,
                told=change.detail or ended.detail,
                code=ended.exit_code,
                begun=started_ms,
                at=ended.ended_ms or self._at_ms,
            )
            self._over.append((tenant_id, codec.request_from(held[0])))
        else:
            user, _ = self._session.the_row(moves.PUT_JOB_BACK, job=job_id, new_status=status.value)
        data = event_data.on_ended(change, node_id, codec.devices_from(devices))
        self._record(change.happening, attempt_id.task_id, data, user)

    def close(self, change: TaskClosed) -> None:
        now = self._task(change.task_id)
        status = task_after(Status(now.status), change.happening)
        if not (Status(now.status).waits and status.is_final):
            raise RefusedError  # what runs ends by its attempt's end
        self._move_task(change.task_id, now.status, status)
        self._session.change(
            moves.END_JOB,
            job=change.task_id.job_id,
            new_status=status.value,
            why=change.cause.value,
            told=change.detail,
            code=None,
            begun=None,
            at=self._at_ms,
        )
        self._over.append((now.tenant_id, codec.request_from(now.request)))
        self._record(change.happening, change.task_id, event_data.on_closed(change), now.user)

    def assign(self, change: Assigned) -> None:
        job_id, task_index, number = change.attempt_id
        where = {"node_id": change.node_id, "devices": codec.text_of(change.devices)}
        if not self._session.change(
            moves.ASSIGN_TASK,
            job=job_id,
            task=task_index,
            new_status=Status.SCHEDULED.value,
            old_number=number - 1,
            new_number=number,
        ):
            raise RefusedError
        self._session.change(
            moves.ADD_ATTEMPT,
            job_id=job_id,
            task_index=task_index,
            number=number,
            state=AttemptState.ASSIGNED.value,
            assigned_ms=self._at_ms,
            **where,
        )
        user, spec = self._session.the_row(
            moves.ASSIGN_JOB,
            job=job_id,
            new_status=Status.SCHEDULED.value,
            new_number=number,
            where_to=where["node_id"],
            on_devices=where["devices"],
        )
        self._specs[job_id] = codec.spec_from(spec)
        data = event_data.on_assigned(change)
        self._record(Happening.ASSIGNED, change.attempt_id.task_id, data, user)

    def _task(self, task_id: TaskId) -> _Task:
        row = self._session.row(moves.TASK, job=task_id.job_id, task=task_id.task_index)
        if row is None:
            raise RefusedError
        return _Task(*row)

    def _attempt(self, attempt_id: AttemptId) -> _Attempt:
        row = self._session.row(
            moves.ATTEMPT, job=attempt_id.job_id, task=attempt_id.task_index, which=attempt_id.number
        )
        if row is None:
            raise RefusedError
        return _Attempt(*row)

    def _move_task(self, task_id: TaskId, source: str, target: Status) -> None:
        if not self._session.change(
            moves.MOVE_TASK,
            job=task_id.job_id,
            task=task_id.task_index,
            old_status=source,
            new_status=target.value,
        ):
            raise RefusedError

    def _move_attempt(self, query: Query, attempt_id: AttemptId, **values: object) -> bool:
        job_id, task_index, number = attempt_id
        return self._session.change(query, job=job_id, task=task_index, which=number, **values) > 0

    def _record(
        self, kind: Happening | AttemptHappening, task_id: TaskId, data: event_data.Data, user: str
    ) -> None:
        self._happened.append((kind.value, task_id, data, user))
