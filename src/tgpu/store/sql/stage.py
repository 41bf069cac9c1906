"""What every stage of a commit has in common: it asks the database the same of many changes side by side."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.lifecycle import AttemptHappening, AttemptState, Cause, IllegalMoveError, attempt_after
from tgpu.store import event_data
from tgpu.store.lost import AttemptGone, Superseded
from tgpu.store.port import Started, StopOrdered
from tgpu.store.sql import moves
from tgpu.store.sql.session import Query, Row, Session, Values

T = TypeVar("T")
_OfAttempt = TypeVar("_OfAttempt", Started, StopOrdered, Superseded, AttemptGone)
Numbered = tuple[int, T]
"""A change, and its place among those of its kind."""


class Happened(NamedTuple):
    """An event that has no number yet."""

    kind: str
    task_id: TaskId
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

    @property
    def is_superseded(self) -> bool:
        return self.stop_cause == Cause.SUPERSEDED.value


class Stage:
    """Within one commit; every method is given changes of different jobs."""

    def __init__(self, session: Session, at_ms: int) -> None:
        self._session, self._at_ms = session, at_ms

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

    def _every(self, query: Query, rows: Sequence[Values]) -> list[Row]:
        """The rows of a query that has one for each."""
        found = [row for row in self._session.row_each(query, rows) if row is not None]
        assert len(found) == len(rows), query.sentence
        return found


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
