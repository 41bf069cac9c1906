"""How each kind of change is taken: many of a kind side by side, none of them of the same job.

A change moves its task by an update that names the states it may leave; the row count decides. The task's row
is moved first: whoever moved it may write the rest. The two that every task goes through, its assignment and
its end, read nothing beforehand: what they have to know comes back from the updates.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tgpu.domain.job import JobSpec, Request
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
    task_sources,
)
from tgpu.store import event_data
from tgpu.store.lost import AttemptLost
from tgpu.store.port import Assigned, AttemptEnded, Started, StopOrdered, TaskClosed
from tgpu.store.sql import codec, moves
from tgpu.store.sql.session import Query, Row, Session
from tgpu.store.sql.stage import Happened, Numbered, Outcomes, Stage, may, of_attempt, of_task

_Leaving = TypeVar("_Leaving", AttemptEnded, AttemptLost)


class _Task(NamedTuple):
    status: str
    request: str
    user: str
    tenant_id: str


_AFTER = {
    happening: task_after(min(task_sources(happening)), happening) for happening in (*ENDINGS, Happening.LOST)
}
"""Where each of these leads: the same from everywhere, as the table of moves has it."""


class _Leave(NamedTuple):
    """How a task leaves its attempt."""

    happening: Happening
    query: Query
    """Moves the task, if it may."""
    state: AttemptState
    """Of the attempt, from then on."""


class Stages(Stage):
    def __init__(self, session: Session, at_ms: int) -> None:
        super().__init__(session, at_ms)
        self.over: list[tuple[str, Request]] = []
        """Whose tasks reached a final state, and what each had been admitted for."""
        self.specs: dict[int, JobSpec] = {}
        """The jobs of the assignments that were taken."""

    def start(self, changes: Sequence[Numbered[Started]]) -> Outcomes:
        allowed = [
            (place, change, now)
            for place, change, now in self._attempts(changes)
            if not now.is_superseded and _may_start(AttemptState(now.state), Status(now.status))
        ]
        taken = self._taken(moves.MOVE_TASK, allowed, [
            of_task(change.attempt_id.task_id) | {"old_status": now.status, "new_status": _STARTED}
            for _, change, now in allowed
        ])  # fmt: skip
        moved = self._session.change_each(moves.START_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "old_state": now.state,
                "new_state": attempt_after(AttemptState(now.state), AttemptHappening.STARTED).value,
                "at": change.at_ms,
            }
            for _, change, now in taken
        ])  # fmt: skip
        assert all(moved), "whoever moved the task may move its attempt"
        self._session.change_each(moves.START_JOB, [
            {"job": change.attempt_id.job_id, "new_status": _STARTED, "at": change.at_ms}
            for _, change, _ in taken
        ])  # fmt: skip
        return {
            place: Happened(
                Happening.STARTED.value,
                change.attempt_id.task_id,
                event_data.on_started(change.attempt_id.number, now.node_id),
                now.user,
            )
            for place, change, now in taken
        }

    def order_stop(self, changes: Sequence[Numbered[StopOrdered]]) -> Outcomes:
        allowed = [
            (place, change, now)
            for place, change, now in self._attempts(changes)
            # To be superseded, its task must have another attempt.
            if change.cause is not Cause.SUPERSEDED
            and may(AttemptState(now.state), AttemptHappening.STOP_ORDERED)
        ]
        taken = self._taken(moves.STOP_ATTEMPT, allowed, [
            of_attempt(change.attempt_id) | {
                "old_state": now.state,
                "new_state": attempt_after(AttemptState(now.state), AttemptHappening.STOP_ORDERED).value,
                "why": change.cause.value,
                "who": change.by,
            }
            for _, change, now in allowed
        ])  # fmt: skip
        return {
            place: Happened(
                AttemptHappening.STOP_ORDERED.value,
                change.attempt_id.task_id,
                event_data.on_stop_ordered(change, now.node_id),
                now.user,
            )
            for place, change, now in taken
        }

    def end(self, changes: Sequence[Numbered[AttemptEnded]]) -> Outcomes:
        by_happening: defaultdict[Happening, list[Numbered[AttemptEnded]]] = defaultdict(list)
        for numbered in changes:
            by_happening[numbered[1].happening].append(numbered)
        outcomes: Outcomes = {}
        for happening, alike in by_happening.items():
            if happening in moves.END_TASK:  # by nothing else a task leaves its attempt
                leaving = _Leave(happening, moves.END_TASK[happening], AttemptState.ENDED)
                outcomes |= self._leave(leaving, alike)
        return outcomes

    def lose(self, changes: Sequence[Numbered[AttemptLost]]) -> Outcomes:
        outcomes: Outcomes = {}
        for happening, requeue in ((Happening.LOST, True), (Happening.FAILED, False)):
            alike = [numbered for numbered in changes if numbered[1].requeue is requeue]
            outcomes |= self._leave(_Leave(happening, moves.LOSE_TASK, AttemptState.LOST), alike)
        return outcomes

    def _leave(self, leave: _Leave, changes: Sequence[Numbered[_Leaving]]) -> Outcomes:
        status = _AFTER[leave.happening]
        taken = self._found(leave.query, changes, [
            of_attempt(change.attempt_id) | {"new_status": status.value} for _, change in changes
        ])  # fmt: skip
        attempts = self._every(moves.END_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "new_state": leave.state.value,
                "begun": change.exit.started_ms,
                "result": codec.text_of(change.exit),
            }
            for (_, change), _ in taken
        ])  # fmt: skip
        left = [change for (_, change), _ in taken]
        if status.is_final:
            owners = self._end_jobs(status, left, attempts)
            self.over += [
                (tenant_id, codec.request_from(request))
                for (_, tenant_id), (_, (request,)) in zip(owners, taken, strict=True)
            ]
        else:
            owners = self._every(moves.PUT_JOB_BACK, [
                {"job": change.attempt_id.job_id, "new_status": status.value} for change in left
            ])  # fmt: skip
        return {
            place: Happened(
                leave.happening.value,
                change.attempt_id.task_id,
                event_data.on_ended(change, node_id, codec.devices_from(devices)),
                user,
            )
            for ((place, change), _), (node_id, devices, _), (user, _) in zip(
                taken, attempts, owners, strict=True
            )
        }

    def _end_jobs(
        self, status: Status, ended: Sequence[AttemptEnded | AttemptLost], attempts: Sequence[Row]
    ) -> list[Row]:
        return self._every(moves.END_JOB, [
            {
                "job": change.attempt_id.job_id,
                "new_status": status.value,
                "why": change.exit.cause.value,
                "told": change.detail or change.exit.detail,
                "code": change.exit.exit_code,
                "where_to": node_id,
                "on_devices": devices,
                "begun": started_ms,
                "at": change.exit.ended_ms or self._at_ms,
            }
            for change, (node_id, devices, started_ms) in zip(ended, attempts, strict=True)
        ])  # fmt: skip

    def close(self, changes: Sequence[Numbered[TaskClosed]]) -> Outcomes:
        found = self._found(moves.TASK, changes, [of_task(change.task_id) for _, change in changes])
        allowed = [
            (place, change, now, status)
            for (place, change), row in found
            for now in (_Task(*row),)
            if (status := _after_closing(Status(now.status), change.happening)) is not None
        ]
        taken = self._taken(moves.MOVE_TASK, allowed, [
            of_task(change.task_id) | {"old_status": now.status, "new_status": status.value}
            for _, change, now, status in allowed
        ])  # fmt: skip
        self._every(moves.END_JOB, [
            {
                "job": change.task_id.job_id,
                "new_status": status.value,
                "why": change.cause.value,
                "told": change.detail,
                "code": None,
                "where_to": None,
                "on_devices": _NOWHERE,
                "begun": None,
                "at": self._at_ms,
            }
            for _, change, _, status in taken
        ])  # fmt: skip
        self.over += [(now.tenant_id, codec.request_from(now.request)) for _, _, now, _ in taken]
        return {
            place: Happened(
                change.happening.value, change.task_id, event_data.on_closed(change), now.user
            )
            for place, change, now, _ in taken
        }  # fmt: skip

    def assign(self, changes: Sequence[Numbered[Assigned]]) -> Outcomes:
        taken = self._taken(moves.ASSIGN_TASK, changes, [
            of_task(change.attempt_id.task_id) | {
                "new_status": Status.SCHEDULED.value,
                "old_number": change.attempt_id.number - 1,
                "new_number": change.attempt_id.number,
            }
            for _, change in changes
        ])  # fmt: skip
        if not taken:
            return {}
        placed = [(change.attempt_id, change.node_id, codec.text_of(change.devices)) for _, change in taken]
        self._session.change_many(moves.ADD_ATTEMPT, [
            {
                "job_id": attempt_id.job_id,
                "task_index": attempt_id.task_index,
                "number": attempt_id.number,
                "state": AttemptState.ASSIGNED.value,
                "node_id": node_id,
                "devices": devices,
                "assigned_ms": self._at_ms,
            }
            for attempt_id, node_id, devices in placed
        ])  # fmt: skip
        owners = self._every(moves.ASSIGN_JOB, [
            {
                "job": attempt_id.job_id,
                "new_status": Status.SCHEDULED.value,
                "new_number": attempt_id.number,
                "where_to": node_id,
                "on_devices": devices,
            }
            for attempt_id, node_id, devices in placed
        ])  # fmt: skip
        outcomes: Outcomes = {}
        for (place, change), (user, spec) in zip(taken, owners, strict=True):
            task_id = change.attempt_id.task_id
            self.specs[task_id.job_id] = codec.spec_from(spec)
            outcomes[place] = Happened(
                Happening.ASSIGNED.value, task_id, event_data.on_assigned(change), user
            )
        return outcomes


_STARTED = task_after(Status.SCHEDULED, Happening.STARTED).value
_NOWHERE = codec.text_of(())


def _may_start(state: AttemptState, status: Status) -> bool:
    try:
        attempt_after(state, AttemptHappening.STARTED)
        return task_after(status, Happening.STARTED).value == _STARTED
    except IllegalMoveError:
        return False


def _after_closing(status: Status, happening: Happening) -> Status | None:
    """Only what waits is closed: what runs ends by its attempt's end, and only an attempt succeeds."""
    try:
        after = task_after(status, happening)
    except IllegalMoveError:
        return None
    return after if status.waits and after.is_final and happening is not Happening.SUCCEEDED else None
