"""What every stage of a commit has in common: it asks the database the same of many changes side by side."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.lifecycle import AttemptHappening, AttemptState, Cause, IllegalMoveError, attempt_after
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Standing
from tgpu.store import event_data
from tgpu.store.book import Charged
from tgpu.store.demand import Run, longest_s
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.port import AttemptEnded, Started, StopOrdered
from tgpu.store.sql import codec, moves
from tgpu.store.sql.job_sums import JobSums
from tgpu.store.sql.postings import Postings
from tgpu.store.sql.session import Query, Row, Session, Values

T = TypeVar("T")
_OfAttempt = TypeVar("_OfAttempt", Started, StopOrdered, Superseded)
_Leaving = TypeVar("_Leaving", AttemptEnded, AttemptLost, AttemptReturned, AttemptGone)
Numbered = tuple[int, T]
"""A change, and its place among those of its kind."""


class Happened(NamedTuple):
    """An event that has no number yet."""

    kind: str
    task_id: tuple[int, int | None]
    """The job, and which of its tasks; None: all of it."""
    data: event_data.Data
    user: str


Outcomes = dict[int, Happened]
"""What happened, by the place of the change; what is missing was refused."""


class AttemptNow(NamedTuple):
    """Where an attempt and its task stand."""

    state: str
    node_id: str
    status: str
    user: str
    stop_cause: str | None
    tasks: int

    @property
    def is_superseded(self) -> bool:
        return self.stop_cause == Cause.SUPERSEDED.value


class TaskNow(NamedTuple):
    """Where a task stands, and what it is charged for to whom."""

    status: str
    tasks: int
    """How many its job has."""
    request: str
    standing: str
    reserved_gpu_ms: int
    user: str
    tenant_id: str
    token_id: int | None
    time_limit_s: int | None
    priority_class: str
    grace_s: int | None

    @property
    def longest_s(self) -> int | None:
        return longest_s(self.time_limit_s, PriorityClass(self.priority_class), self.grace_s)

    @property
    def charged(self) -> Charged:
        return Charged(codec.request_from(self.request), STANDINGS[self.standing], self.reserved_gpu_ms)


class Tried(NamedTuple):
    """All that there is of an attempt, and its task."""

    state: AttemptState
    node_id: str
    devices: str
    started_ms: int | None
    exit: str | None
    stop_cause: str | None
    submitted_ms: int
    task: TaskNow

    @property
    def is_superseded(self) -> bool:
        return self.stop_cause == Cause.SUPERSEDED.value

    @property
    def counted(self) -> Run | None:
        """What was counted of its run, if it is lost."""
        if self.state is not AttemptState.LOST or self.exit is None:
            return None
        return Run(self.started_ms, codec.exit_from(self.exit).ended_ms)

    def began_ms(self, told_ms: int | None) -> int | None:
        """What was known first holds."""
        return told_ms if self.started_ms is None else self.started_ms


STANDINGS = {standing.value: standing for standing in Standing}
_STATES = {state.value: state for state in AttemptState}


def _tried(row: Row) -> Tried:
    state, node_id, devices, started_ms, ended, stop_cause, submitted_ms, *task = row
    return Tried(
        _STATES[state], node_id, devices, started_ms, ended, stop_cause, submitted_ms, TaskNow(*task)
    )


class Stage:
    """Within one commit; every method is given changes of different tasks."""

    def __init__(self, session: Session, at_ms: int, postings: Postings, sums: JobSums) -> None:
        """`sums`: what happens to jobs of several tasks. The row of a job of one task is written at once."""
        self._session, self._at_ms, self._postings, self._sums = session, at_ms, postings, sums

    def _tried(self, changes: Sequence[Numbered[_Leaving]]) -> list[tuple[int, _Leaving, Tried]]:
        """Those whose attempt is known, with all that there is of it."""
        found = self._found(moves.TRIED, changes, [of_attempt(change.attempt_id) for _, change in changes])
        return [(place, change, _tried(row)) for (place, change), row in found]

    def _attempts(self, changes: Sequence[Numbered[_OfAttempt]]) -> list[tuple[int, _OfAttempt, AttemptNow]]:
        """Those whose attempt is known, with where it stands."""
        found = self._found(moves.ATTEMPT, changes, [of_attempt(change.attempt_id) for _, change in changes])
        return [(place, change, AttemptNow(*row)) for (place, change), row in found]

    def _taken(self, query: Query, items: Sequence[T], rows: Sequence[Values]) -> list[T]:
        """Those whose row the query changed."""
        changed = self._session.change_each(query, rows)
        return [item for item, done in zip(items, changed, strict=True) if done]

    def _found(self, query: Query, items: Sequence[T], rows: Sequence[Values]) -> list[tuple[T, Row]]:
        """Those for which the query gives a row, with it."""
        given = self._session.row_each(query, rows)
        return [(item, row) for item, row in zip(items, given, strict=True) if row is not None]

    def _write(self, query: Query, rows: Sequence[Values]) -> None:
        """What was read and decided: the jobs are held, so it still stands as it was seen."""
        if rows:
            self._session.change_all(query, rows)


def may(state: AttemptState, happening: AttemptHappening) -> bool:
    try:
        attempt_after(state, happening)
    except IllegalMoveError:
        return False
    return True


def of_task(task_id: TaskId) -> Values:
    return {"job": task_id.job_id, "task": task_id.task_index}


def of_attempt(attempt_id: AttemptId) -> Values:
    job_id, task_index, number = attempt_id
    return {"job": job_id, "task": task_index, "which": number}
