"""What was decided and reported: each change is taken if the tables of moves and the current rows allow it.

Changes of one kind go through their statements side by side (`stages.py`), so that a database at the end of a
wire is asked once per statement and not once per change. Two changes of one task never do: the second sees
what the first one did. The row of a job of several tasks is written once, at the end (`job_sums.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tgpu.domain.ids import TaskId
from tgpu.domain.job import Event
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.port import Assigned, AttemptEnded, Batch, Change, Receipt, Started, StopOrdered, TaskClosed
from tgpu.store.sql import altering, cluster, feed, moves, series, usage
from tgpu.store.sql.assigning import Assigning
from tgpu.store.sql.job_sums import JobSums
from tgpu.store.sql.lost_stages import LostStages
from tgpu.store.sql.postings import Postings
from tgpu.store.sql.session import Session
from tgpu.store.sql.stage import Happened, Numbered, Outcomes, of_task
from tgpu.store.sql.stages import Stages

_Change = TypeVar(
    "_Change",
    Started,
    AttemptReturned,
    Superseded,
    StopOrdered,
    AttemptEnded,
    AttemptLost,
    AttemptGone,
    TaskClosed,
    Assigned,
)


def commit(session: Session, epoch: int, batch: Batch) -> Receipt:
    cluster.check_epoch(session, epoch)
    cluster.put_nodes(session, batch.nodes)
    _hold_jobs(session, batch)
    _note_saved(session, batch)
    progress, postings, sums = _Progress(), Postings(session), JobSums(session)
    stages = Stages(session, batch.at_ms, postings, sums)
    lost = LostStages(session, batch.at_ms, postings, sums)
    starts = Assigning(session, batch.at_ms, postings, sums, batch.seen_seq)
    progress.happened += altering.meet(session, batch.released, batch.at_ms)
    progress.take(batch.started, stages.start)
    returned = progress.take(batch.returned, lost.come_back)
    progress.take(batch.superseded, lost.supersede)
    progress.take(batch.stop_ordered, stages.order_stop)
    ended = progress.take(batch.ended, stages.end)
    lately_lost = progress.take(batch.lost, stages.lose)
    gone = progress.take(batch.gone, lost.let_go)
    progress.take(batch.closed, stages.close)
    growing = series.to_grow(session, batch.grown)
    postings.expect(each.spec.tenant_id for each in growing)
    if batch.assigned:
        progress.note(batch.assigned, starts.assign(list(enumerate(batch.assigned))))
    usage.forget(session, [change.attempt_id for change in returned])
    usage.record(session, [*ended, *lately_lost, *gone], batch.at_ms, stages.first_tries)
    birth = series.Birth(session, batch.at_ms, postings, sums)
    birth.drop(batch.dropped)
    grown = birth.grow(growing)
    progress.happened += birth.happened
    sums.write()
    postings.write()
    events = _numbered(session, batch.at_ms, progress.happened)
    return Receipt(progress.refused, events, starts.specs, sums.statuses, grown)


class _Progress:
    """One commit under way."""

    def __init__(self) -> None:
        self.refused: list[Change] = []
        self.happened: list[Happened] = []

    def take(
        self, changes: Sequence[_Change], stage: Callable[[Sequence[Numbered[_Change]]], Outcomes]
    ) -> list[_Change]:
        """Returns those that were taken."""
        if not changes:
            return []
        outcomes: Outcomes = {}
        for side_by_side in _rounds(changes):
            outcomes |= stage(side_by_side)
        return self.note(changes, outcomes)

    def note(self, changes: Sequence[_Change], outcomes: Outcomes) -> list[_Change]:
        taken: list[_Change] = []
        for place, change in enumerate(changes):
            happened = outcomes.get(place)
            if happened is None:
                self.refused.append(change)
            else:
                self.happened.append(happened)
                taken.append(change)
        return taken


def _rounds(changes: Sequence[_Change]) -> Iterator[list[Numbered[_Change]]]:
    """The first of each task, then the second of each, and so on."""
    left = list(enumerate(changes))
    while len(left) > 1:
        tasks: set[TaskId] = set()
        now: list[Numbered[_Change]] = []
        later: list[Numbered[_Change]] = []
        for numbered in left:
            task_id = _task_of(numbered[1])
            (later if task_id in tasks else now).append(numbered)
            tasks.add(task_id)
        yield now
        left = later
    if left:
        yield left


def _task_of(change: Change) -> TaskId:
    return change.task_id if isinstance(change, TaskClosed) else change.attempt_id.task_id


def _hold_jobs(session: Session, batch: Batch) -> None:
    """A user's wish to cancel is seen by all of this, or comes after all of it."""
    job_ids = {_task_of(change).job_id for changes in batch.in_order() for change in changes}
    job_ids |= {task_id.job_id for task_id in batch.saved}
    job_ids.update(batch.released)
    job_ids.update(dropped.job_id for dropped in batch.dropped)
    job_ids.update(grown.job_id for grown in batch.grown)
    session.hold(moves.HOLD_JOB, [{"job": job_id} for job_id in job_ids])


def _note_saved(session: Session, batch: Batch) -> None:
    rows = [of_task(task_id) | {"at": at_ms} for task_id, at_ms in batch.saved.items()]
    if rows:
        session.change_each(moves.SAVE_TASK, rows)  # of an older time, nothing is changed


def _numbered(session: Session, at_ms: int, happened: Sequence[Happened]) -> list[Event]:
    """Writes the events, last: the row that numbers them is wanted by everybody."""
    if not happened:
        return []
    _, first_seq = cluster.reserve(session, 0, len(happened))
    events = [
        Event(seq, at_ms, kind, *task_id, data, user)
        for seq, (kind, task_id, data, user) in enumerate(happened, first_seq)
    ]
    feed.write(session, events)
    return events
