"""Tasks that may not wait for ever, and jobs that must be over by some moment: whose time is up?"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from tgpu.control import wishes
from tgpu.control.containment import about_job
from tgpu.control.series_book import Entry
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.core.placed import Placed
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Job, TaskBrief
from tgpu.domain.lifecycle import AttemptState, Cause, Happening
from tgpu.domain.quantities import time_in_words
from tgpu.domain.timing import Timing
from tgpu.store.port import Receipt, StopOrdered, TaskClosed

_PUT_BACK = (Happening.REQUEUED, Happening.PREEMPTED)


@dataclass(frozen=True, slots=True, order=True)
class Due:
    at_ms: int
    cause: Cause
    detail: str


class Deadlines:
    """A heap of moments to look at a task again: what is due then is told by the task as it is by then."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, TaskId]] = []

    def watch(self, task: TaskBrief) -> None:
        if task.max_wait_s is None and task.timing is None:
            return
        due = first_due(task)
        if due is not None:
            heapq.heappush(self._heap, (due.at_ms, task.task_id))

    def heard(self, receipt: Receipt) -> None:
        """Tasks of series that were born with a commit."""
        for _, _, tasks in receipt.grown:
            for task in tasks:
                self.watch(task)

    def watch_again(self, picture: Picture, turn: Turn) -> None:
        """Those who wait again must still be over in time."""
        ended = (change.attempt_id for change in turn.batch.ended if change.happening in _PUT_BACK)
        for attempt_id in chain(ended, (change.attempt_id for change in turn.batch.lost)):
            task_id = attempt_id.task_id
            task = picture.waiting.get(task_id) or picture.parked.get(task_id)
            if task is not None:
                self.watch(task)

    def take_in(self, picture: Picture, turn: Turn) -> None:
        while self._heap and self._heap[0][0] <= picture.now_ms:
            _, task_id = heapq.heappop(self._heap)
            with about_job(task_id.job_id):
                placed = picture.placed.get(task_id)
                if placed is not None:
                    self._look_at(picture, placed, turn)
                else:
                    self._look_at_waiting(picture, task_id, turn)

    def _look_at_waiting(self, picture: Picture, task_id: TaskId, turn: Turn) -> None:
        task = picture.waiting.get(task_id) or picture.parked.get(task_id)
        due = None if task is None else first_due(task, turn.series.get(task_id.job_id))
        if due is None:
            return
        if due.at_ms > picture.now_ms:
            heapq.heappush(self._heap, (due.at_ms, task_id))
            return
        wishes.take_out(picture, task_id)
        turn.batch.closed.append(TaskClosed(task_id, Happening.FAILED, due.cause, due.detail))

    def _look_at(self, picture: Picture, placed: Placed, turn: Turn) -> None:
        """One that runs is stopped at its deadline, and not before."""
        timing = placed.task.timing
        deadline_ms = None if timing is None else timing.deadline_ms
        if deadline_ms is None or placed.state is AttemptState.STOPPING:
            return
        if deadline_ms > picture.now_ms:
            heapq.heappush(self._heap, (deadline_ms, placed.task.task_id))
            return
        placed.stop_detail = _moment(deadline_ms)
        picture.stopping(placed, Cause.DEADLINE)
        turn.batch.stop_ordered.append(StopOrdered(placed.attempt_id, Cause.DEADLINE, placed.stop_detail))


def waits_until(entry: Entry) -> Due | None:
    """Of a series whose tasks wait for their first place together: when it fails, unless some of it has begun
    by then. After that, they wait for each other."""
    spec, timing = entry.job.spec, entry.job.timing
    parked = timing is not None and timing.is_parked
    if spec.max_wait_s is None or parked or entry.begun or not entry.waits_whole:
        return None
    return _too_long(spec.max_wait_s, timing, entry.job.submitted_ms)


def has_begun(picture: Picture, entry: Entry) -> bool:
    """Whether some of its tasks have a place, or had one."""
    entry.begun = entry.begun or any(_was_placed(picture, task_id) for task_id in entry.live)
    return entry.begun


def _was_placed(picture: Picture, task_id: TaskId) -> bool:
    task = picture.waiting.get(task_id) or picture.parked.get(task_id)
    return task_id in picture.placed if task is None else task.attempts > 0


def first_due(task: TaskBrief, entry: Entry | None = None) -> Due | None:
    """Of a task that waits: when it fails unless it has started, and why. `entry`: of its job, if a book is
    kept of that; for its first place it may wait with others."""
    return min(_dues(task, alone=entry is None or not entry.waits_whole), default=None)


def _dues(task: TaskBrief, *, alone: bool) -> Iterator[Due]:
    timing = task.timing
    parked = timing is not None and timing.is_parked
    # One that was placed and came back did not wait too long for its first place.
    if alone and task.max_wait_s is not None and not parked and not task.attempts:
        yield _too_long(task.max_wait_s, timing, task.submitted_ms)
    if timing is not None and (due := _deadline(timing, task.time_limit_s)) is not None:
        yield due


def _too_long(max_wait_s: int, timing: Timing | None, submitted_ms: int) -> Due:
    since_ms = submitted_ms if timing is None else timing.waits_since(submitted_ms)
    return Due(since_ms + 1000 * max_wait_s, Cause.WAITED_TOO_LONG, f"was not placed within {max_wait_s} s")


def too_late(job: Job, now_ms: int) -> Due | None:
    """Whether nothing of a job that has yet to start could be over by its deadline."""
    due = None if job.timing is None else _deadline(job.timing, job.spec.time_limit_s)
    return due if due is not None and due.at_ms <= now_ms else None


def _deadline(timing: Timing, time_limit_s: int | None) -> Due | None:
    starts_by = timing.starts_by(time_limit_s)
    if timing.deadline_ms is None or starts_by is None:
        return None
    detail = f"did not start in time to be over by its deadline, {_moment(timing.deadline_ms)}"
    if time_limit_s is not None:
        detail += f", with a time limit of {time_in_words(time_limit_s)}"
    return Due(starts_by, Cause.DEADLINE, detail)


def _moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
