"""How each kind of change is taken: many of a kind side by side, none of them of the same task unless said.

The jobs are held: what is read of them and decided still stands when it is written, and each update names the
status that it leaves.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
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
from tgpu.store.book import Lineage, standing_put_back
from tgpu.store.demand import NEVER_RAN, Run
from tgpu.store.lost import AttemptLost
from tgpu.store.port import AttemptEnded, Started, StopOrdered, TaskClosed
from tgpu.store.sql import codec, moves
from tgpu.store.sql.job_sums import JobSums
from tgpu.store.sql.postings import Postings
from tgpu.store.sql.session import Row, Session
from tgpu.store.sql.stage import (
    STANDINGS,
    Happened,
    Numbered,
    Outcomes,
    Stage,
    TaskNow,
    Tried,
    may,
    of_attempt,
    of_task,
)
from tgpu.store.token_cap import unused


class _Leaving(NamedTuple):
    """A task that leaves its attempt."""

    place: int
    change: AttemptEnded | AttemptLost
    now: Tried
    happening: Happening
    after: Status
    """Where the task stands then."""

    def job_id(self) -> int:
        return self.change.attempt_id.job_id

    @property
    def counts(self) -> bool:
        """Whether it failed by its own doing, and is counted for that."""
        return isinstance(self.change, AttemptEnded) and self.change.counts


class Stages(Stage):
    def __init__(self, session: Session, at_ms: int, postings: Postings, sums: JobSums) -> None:
        super().__init__(session, at_ms, postings, sums)
        self.first_tries: dict[AttemptId, Row] = {}
        """Of each attempt that was the first of its task, and never lost, what accounting has to know."""

    def start(self, changes: Sequence[Numbered[Started]]) -> Outcomes:
        taken = [
            (place, change, now)
            for place, change, now in self._attempts(changes)
            if not now.is_superseded and _may_start(AttemptState(now.state), Status(now.status))
        ]
        self._write(moves.MOVE_TASK, [
            of_task(change.attempt_id.task_id) | {"old_status": now.status, "new_status": _STARTED}
            for _, change, now in taken
        ])  # fmt: skip
        self._write(moves.START_ATTEMPT, [
            of_attempt(change.attempt_id) | {
                "old_state": now.state,
                "new_state": attempt_after(AttemptState(now.state), AttemptHappening.STARTED).value,
                "at": change.at_ms,
            }
            for _, change, now in taken
        ])  # fmt: skip
        self._write(moves.START_JOB, [
            {"job": change.attempt_id.job_id, "new_status": _STARTED, "at": change.at_ms}
            for _, change, now in taken if now.tasks == 1
        ])  # fmt: skip
        several = [(change, now) for _, change, now in taken if now.tasks > 1]
        for (change, now), job in self._sums.each(several, lambda it: it[0].attempt_id.job_id):
            job.moved(Status(now.status), Status.RUNNING)
            job.began(change.at_ms)
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
        leaving: list[_Leaving] = []
        for place, change, now in self._tried(changes):
            after = _after_ending(now, change.happening)
            if after is not None:
                leaving.append(_Leaving(place, change, now, change.happening, after))
        return self._leave(leaving, AttemptState.ENDED)

    def lose(self, changes: Sequence[Numbered[AttemptLost]]) -> Outcomes:
        leaving: list[_Leaving] = []
        for place, change, now in self._tried(changes):
            after = _after_losing(now, requeue=change.requeue)
            if after is not None:
                happening = Happening.LOST if change.requeue else Happening.FAILED
                leaving.append(_Leaving(place, change, now, happening, after))
        return self._leave(leaving, AttemptState.LOST)

    def _leave(self, leaving: Sequence[_Leaving], state: AttemptState) -> Outcomes:
        """The tasks leave their attempts, which are in `state` from then on."""
        self._write(moves.END_ATTEMPT, [
            of_attempt(one.change.attempt_id) | {
                "new_state": state.value,
                "begun": one.change.exit.started_ms,
                "result": codec.text_of(one.change.exit),
            }
            for one in leaving
        ])  # fmt: skip
        self._end([one for one in leaving if one.after.is_final])
        self._put_back([one for one in leaving if not one.after.is_final])
        for one in leaving:
            self._settle(one)
            if one.change.attempt_id.number == 1 and one.now.state is not AttemptState.LOST:
                self.first_tries[one.change.attempt_id] = _first_try(one)
        return {
            one.place: Happened(
                one.happening.value,
                one.change.attempt_id.task_id,
                event_data.on_ended(one.change, one.now.node_id, codec.devices_from(one.now.devices)),
                one.now.task.user,
            )
            for one in leaving
        }

    def _settle(self, one: _Leaving) -> None:
        """What the task was charged for. One that waits by now had left its node when that was lost; it is
        over, for such an attempt cannot put it back."""
        ended, task = one.change.exit, one.now.task
        run = Run(one.now.began_ms(ended.started_ms), ended.ended_ms or self._at_ms)
        charged, counted, over = task.charged, one.now.counted, one.after.is_final

        def part(tenants: Lineage) -> None:
            if Status(task.status).waits:
                tenants.close(charged)
                tenants.count(charged.request, run, counted)
            else:
                tenants.part(charged, run, counted, over=over)

        self._postings.post(task.tenant_id, part)
        if over and task.token_id is not None:
            self._postings.give_back(task.token_id, unused(charged.request, task.longest_s, run))

    def _end(self, leaving: Sequence[_Leaving]) -> None:
        self._write(moves.END_TASK, [
            of_task(one.change.attempt_id.task_id)
            | {"old_status": one.now.task.status, "new_status": one.after.value}
            for one in leaving
        ])  # fmt: skip
        self._write(moves.END_JOB, [
            {
                "job": one.change.attempt_id.job_id,
                "new_status": one.after.value,
                "why": one.change.exit.cause.value,
                "told": one.change.detail or one.change.exit.detail,
                "code": one.change.exit.exit_code,
                "where_to": one.now.node_id,
                "on_devices": one.now.devices,
                "begun": one.now.began_ms(one.change.exit.started_ms),
                "at": one.change.exit.ended_ms or self._at_ms,
            }
            for one in leaving if one.now.task.tasks == 1
        ])  # fmt: skip
        for one, job in self._sums.each(_of_several(leaving), _Leaving.job_id):
            ended = one.change.exit
            job.moved(Status(one.now.task.status), one.after)
            job.began(one.now.began_ms(ended.started_ms))
            told = one.change.detail or ended.detail
            job.ended(one.after, ended, told, ended.ended_ms or self._at_ms, one.change.fails_job)
            if one.counts:
                job.failed()

    def _put_back(self, leaving: Sequence[_Leaving]) -> None:
        self._write(moves.PUT_TASK_BACK, [
            of_task(one.change.attempt_id.task_id)
            | {
                "old_status": one.now.task.status,
                "new_status": one.after.value,
                "new_standing": standing_put_back(STANDINGS[one.now.task.standing]).value,
                "at": self._at_ms,
                "more_failures": int(one.counts),
                "eligible": one.change.eligible_ms if isinstance(one.change, AttemptEnded) else 0,
            }
            for one in leaving
        ])  # fmt: skip
        self._write(moves.PUT_JOB_BACK, [
            {"job": one.change.attempt_id.job_id, "new_status": one.after.value}
            for one in leaving if one.now.task.tasks == 1
        ])  # fmt: skip
        for one, job in self._sums.each(_of_several(leaving), _Leaving.job_id):
            job.moved(Status(one.now.task.status), one.after)
            if one.counts:
                job.failed()

    def close(self, changes: Sequence[Numbered[TaskClosed]]) -> Outcomes:
        found = self._found(moves.TASK, changes, [of_task(change.task_id) for _, change in changes])
        taken = [
            (place, change, now, status)
            for (place, change), row in found
            for now in (TaskNow(*row),)
            if (status := _after_closing(Status(now.status), change.happening)) is not None
        ]
        self._write(moves.CLOSE_TASK, [
            of_task(change.task_id) | {
                "old_status": now.status,
                "new_status": status.value,
                "why": change.cause.value,
                "told": change.detail,
            }
            for _, change, now, status in taken
        ])  # fmt: skip
        self._write(moves.END_JOB, [
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
            for _, change, now, status in taken if now.tasks == 1
        ])  # fmt: skip
        several = [(change, now, status) for _, change, now, status in taken if now.tasks > 1]
        for (change, now, status), job in self._sums.each(several, lambda it: it[0].task_id.job_id):
            job.moved(Status(now.status), status)
            job.ended(status, Exit(change.cause), change.detail, self._at_ms)
        for _, _, now, _ in taken:
            charged = now.charged
            self._postings.post(now.tenant_id, partial(Lineage.close, task=charged))
            if now.token_id is not None:
                back = unused(charged.request, now.longest_s, NEVER_RAN)
                self._postings.give_back(now.token_id, back)
        return {
            place: Happened(
                change.happening.value, change.task_id, event_data.on_closed(change), now.user
            )
            for place, change, now, _ in taken
        }  # fmt: skip


_STARTED = task_after(Status.SCHEDULED, Happening.STARTED).value
_NOWHERE = codec.text_of(())


def _first_try(one: _Leaving) -> Row:
    """As a row of `usage.TRIED`: nobody was before it, and when it was assigned does not matter then."""
    now, task = one.now, one.now.task
    began_ms = now.began_ms(one.change.exit.started_ms)
    return (
        now.node_id, now.devices, None, began_ms, task.request, task.user, task.tenant_id,
        task.priority_class, now.submitted_ms, None,
    )  # fmt: skip


def _of_several(leaving: Sequence[_Leaving]) -> list[_Leaving]:
    """Those whose job has other tasks, too."""
    return [one for one in leaving if one.now.task.tasks > 1]


def _may_start(state: AttemptState, status: Status) -> bool:
    try:
        attempt_after(state, AttemptHappening.STARTED)
        return task_after(status, Happening.STARTED).value == _STARTED
    except IllegalMoveError:
        return False


def _after_ending(now: Tried, happening: Happening) -> Status | None:
    """An attempt that was lost may end its task for good; it cannot put it back."""
    if happening not in ENDINGS or now.is_superseded:  # by nothing else a task leaves its attempt
        return None
    try:
        attempt_after(now.state, AttemptHappening.ENDED)
        after = task_after(Status(now.task.status), happening)
    except IllegalMoveError:
        return None
    return None if now.state is AttemptState.LOST and not after.is_final else after


def _after_losing(now: Tried, *, requeue: bool) -> Status | None:
    if now.is_superseded:
        return None
    try:
        attempt_after(now.state, AttemptHappening.LOST)
        after = task_after(Status(now.task.status), Happening.LOST)
        return after if requeue else task_after(Status(now.task.status), Happening.FAILED)
    except IllegalMoveError:
        return None


def _after_closing(status: Status, happening: Happening) -> Status | None:
    """Only what waits is closed: what runs ends by its attempt's end, and only an attempt succeeds."""
    try:
        after = task_after(status, happening)
    except IllegalMoveError:
        return None
    return after if status.waits and after.is_final and happening is not Happening.SUCCEEDED else None
