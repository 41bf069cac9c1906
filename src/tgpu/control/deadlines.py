"""Tasks that may not wait for ever, and jobs that must be over by some moment: whose time is up?"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from tgpu.control import wishes
from tgpu.control.series_book import End, Entry
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
        _note_begun(turn)
        while self._heap and self._heap[0][0] <= picture.now_ms:
            _, task_id = heapq.heappop(self._heap)
            placed = picture.placed.get(task_id)
            if placed is not None:
                self._look_at(picture, placed, turn)
                continue
            task = picture.waiting.get(task_id) or picture.parked.get(task_id)
            entry = turn.series.get(task_id.job_id)
            if task is None or (entry is not None and entry.end is not None):
                continue  # it is over, or about to be with all of its series
            due = first_due(task, begun=has_begun(picture, entry))
            if due is None:
                continue
            if due.at_ms > picture.now_ms:
                heapq.heappush(self._heap, (due.at_ms, task_id))
                continue
            if due.cause is Cause.WAITED_TOO_LONG and entry is not None and entry.waits_whole:
                turn.series.end(task_id.job_id, End(due.cause, due.detail))  # none of it: so it fails whole
                continue
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


def _note_begun(turn: Turn) -> None:
    """Of whom something has left its node in this turn."""
    ended = (change.attempt_id.job_id for change in turn.batch.ended)
    for job_id in chain(ended, (change.attempt_id.job_id for change in turn.batch.lost)):
        if (entry := turn.series.get(job_id)) is not None:
            entry.begun = True


def has_begun(picture: Picture, entry: Entry | None) -> bool:
    """Whether some of a series has had a place: then the others wait for it, and not for their first one."""
    if entry is None or not entry.waits_whole:
        return False
    entry.begun = entry.begun or any(map(picture.placed.__contains__, entry.live))
    return entry.begun


def first_due(task: TaskBrief, *, begun: bool = False) -> Due | None:
    """Of a task that waits: when it fails unless it has started, and why. `begun`: others of its series
    have."""
    return min(_dues(task, begun=begun), default=None)


def _dues(task: TaskBrief, *, begun: bool) -> Iterator[Due]:
    timing = task.timing
    parked = timing is not None and timing.is_parked
    # One that was placed and came back did not wait too long for its first place.
    if task.max_wait_s is not None and not parked and not task.attempts and not begun:
        since_ms = task.submitted_ms if timing is None else timing.waits_since(task.submitted_ms)
        detail = f"was not placed within {task.max_wait_s} s"
        yield Due(since_ms + 1000 * task.max_wait_s, Cause.WAITED_TOO_LONG, detail)
    if timing is not None and (due := _deadline(timing, task.time_limit_s)) is not None:
        yield due


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
