"""Who waits is one thing, whether it is asked by name, by place in the queue or after a new layout."""

import random

from tests.core.core_story import NOW_MS, asks, node, picture_of, task
from tgpu.core.picture import Picture
from tgpu.domain.ids import TaskId


def _three() -> Picture:
    return picture_of([node()], [task(2), task(1), task(3)])


def test_they_are_told_in_the_order_in_which_they_came() -> None:
    picture = _three()
    assert list(picture.waiting) == [TaskId(2, 0), TaskId(1, 0), TaskId(3, 0)]
    assert picture.in_order() == [TaskId(1, 0), TaskId(2, 0), TaskId(3, 0)]


def test_who_left_waits_no_more_and_its_row_is_used_again() -> None:
    picture = _three()
    assert picture.remove_waiting(TaskId(1, 0)) == task(1)
    picture.add_waiting(task(4))
    assert TaskId(1, 0) not in picture.waiting
    assert picture.waiting.get(TaskId(1, 0)) is None
    assert picture.waiting == {TaskId(number, 0): task(number) for number in (2, 3, 4)}


def test_a_resource_that_nobody_knew_loses_nobody() -> None:
    picture = _three()
    odd = task(4, asks(generic=(("scope", 1),)))
    picture.add_waiting(odd)
    assert list(picture.waiting.values()) == [task(2), task(1), task(3), odd]
    assert picture.in_order() == [TaskId(number, 0) for number in (1, 2, 3, 4)]
    assert picture.position(odd.task_id) == 4


def test_those_of_one_queue_share_its_name() -> None:
    waiting = _three().table.waiting
    first, second, third = (waiting.queue_of(slot) for slot in waiting.slot_of.values())
    assert first is second is third


def test_after_hours_of_waiting_they_stand_as_if_each_had_joined_by_now() -> None:
    dice = random.Random(5)
    hour_ms = 3_600_000
    tasks = [
        task(n, priority=dice.randint(-2, 3), submitted_ms=NOW_MS - dice.randint(0, 40) * hour_ms // 2)
        for n in range(1, 300)
    ]
    picture = picture_of([node()], tasks)
    for hours in (1, 5, 30):
        picture.now_ms = now_ms = NOW_MS + hours * hour_ms
        aged = {
            one.task_id: one.priority + min(24, max(0, now_ms - one.submitted_ms) // hour_ms) for one in tasks
        }
        wanted = sorted(tasks, key=lambda one: (-aged[one.task_id], one.submitted_ms, one.task_id))
        assert picture.in_order() == [one.task_id for one in wanted]
        left = tasks.pop(dice.randrange(len(tasks)))
        picture.remove_waiting(left.task_id)
