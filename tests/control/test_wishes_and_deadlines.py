"""What users asked for, and what time has brought."""

from dataclasses import replace

from tests.control.control_story import picture_with, running, task
from tgpu.control import wishes
from tgpu.control.deadlines import Deadlines
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import AttemptState, Cause, Happening
from tgpu.store.port import Batch, CancelAsked, Changes, StopOrdered, TaskClosed

FIRST = TaskId(1, 0)
CLOSED = TaskClosed(FIRST, Happening.CANCELLED, Cause.CANCELLED, "cancelled by bob")


def turn() -> Turn:
    return Turn(Batch(0))


def test_a_new_task_waits_and_is_taken_in_only_once() -> None:
    picture, this = picture_with(), turn()
    for _ in range(2):
        wishes.take_in(picture, Changes(1, [task(1)], []), this)
    assert (list(picture.waiting), this.batch) == ([FIRST], Batch(0))


def test_a_task_that_is_placed_already_does_not_wait_again() -> None:
    picture = picture_with(placed=[task(1)])
    wishes.take_in(picture, Changes(1, [task(1)], []), turn())
    assert picture.waiting == {}


def test_a_task_that_was_cancelled_before_it_was_seen_is_closed_at_once() -> None:
    picture, this = picture_with(), turn()
    wishes.take_in(picture, Changes(2, [task(1, cancel_by="bob")], [CancelAsked(1, "bob")]), this)
    assert (picture.waiting, this.batch) == ({}, Batch(0, closed=[CLOSED]))


def test_a_waiting_task_that_is_cancelled_is_closed_at_once() -> None:
    picture, this = picture_with(task(1)), turn()
    wishes.take_in(picture, Changes(2, [], [CancelAsked(1, "bob"), CancelAsked(1, "cyd")]), this)
    assert (picture.waiting, this.batch) == ({}, Batch(0, closed=[CLOSED]))


def test_a_placed_task_that_is_cancelled_is_stopped_once_and_keeps_its_room() -> None:
    picture, this = picture_with(placed=[task(1)]), turn()
    placed = running(picture, 1)
    wishes.take_in(picture, Changes(2, [], [CancelAsked(1, "bob"), CancelAsked(1, "bob")]), this)
    assert this.batch == Batch(0, stop_ordered=[StopOrdered(FIRST.attempt(1), Cause.CANCELLED, "bob")])
    assert (placed.state, placed.task.cancel_by) == (AttemptState.STOPPING, "bob")
    assert list(picture.placed) == [FIRST]


def test_a_task_that_gives_way_and_is_cancelled_is_not_stopped_a_second_time() -> None:
    picture, this = picture_with(placed=[task(1)]), turn()
    placed = running(picture, 1)
    picture.stopping(placed, Cause.PREEMPTED)
    wishes.take_in(picture, Changes(2, [], [CancelAsked(1, "bob")]), this)
    assert this.batch == Batch(0)
    assert (placed.stop_cause, placed.task.cancel_by) == (Cause.PREEMPTED, "bob")


def test_a_task_that_gave_way_and_waits_is_closed_at_once_when_it_is_cancelled() -> None:
    picture, this = picture_with(), turn()
    picture.put_back(task(1, attempts=1))
    wishes.take_in(picture, Changes(2, [], [CancelAsked(1, "bob")]), this)
    assert (picture.waiting, this.batch) == ({}, Batch(0, closed=[CLOSED]))


def test_cancelling_what_is_over_does_nothing() -> None:
    this = turn()
    wishes.take_in(picture_with(), Changes(2, [], [CancelAsked(1, "bob")]), this)
    assert this.batch == Batch(0)


def at(picture: Picture, deadlines: Deadlines, now_ms: int) -> Batch:
    this = turn()
    picture.now_ms = now_ms
    deadlines.take_in(picture, this)
    return this.batch


def test_a_task_that_was_not_placed_in_time_is_closed() -> None:
    patient, hasty = task(1, max_wait_s=100), task(2, max_wait_s=5, submitted_ms=1000)
    picture, deadlines = picture_with(patient, hasty, task(3)), Deadlines()
    for each in (patient, hasty, task(3)):
        deadlines.watch(each)
    assert at(picture, deadlines, 5999) == Batch(0)
    words = "was not placed within 5 s"
    assert at(picture, deadlines, 6000) == Batch(
        0, closed=[TaskClosed(TaskId(2, 0), Happening.FAILED, Cause.WAITED_TOO_LONG, words)]
    )
    assert list(picture.waiting) == [FIRST, TaskId(3, 0)]


def test_a_task_that_has_been_placed_or_has_gone_is_not_late() -> None:
    placed, gone = task(1, max_wait_s=5), task(2, max_wait_s=5)
    picture, deadlines = picture_with(placed=[placed]), Deadlines()
    deadlines.watch(placed)
    deadlines.watch(gone)
    assert at(picture, deadlines, 9000) == Batch(0)


def test_a_task_that_lost_its_place_has_not_waited_too_long_for_it() -> None:
    """Whether it came back before its deadline, or a new leader finds it waiting after that."""
    again = replace(task(1, max_wait_s=5), attempts=1)
    picture, deadlines = picture_with(again), Deadlines()
    deadlines.watch(task(1, max_wait_s=5))
    deadlines.watch(again)
    assert at(picture, deadlines, 9000) == Batch(0)
    assert list(picture.waiting) == [FIRST]
