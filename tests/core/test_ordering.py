"""Who is served first."""

import pytest

from tests.core.core_story import FIFO, PRIORITY, asks, picture_of, task
from tgpu.core.ordering import by_priority, by_time
from tgpu.core.policy import UnknownPolicyError, named
from tgpu.core.queue_line import Line, task_of
from tgpu.domain.ids import TaskId
from tgpu.domain.priority import PriorityClass


def test_fifo_serves_who_came_first_whatever_their_class() -> None:
    late = task(1, submitted_ms=20, priority_class=PriorityClass.REAL_TIME, priority=9)
    early = task(2, submitted_ms=10, priority_class=PriorityClass.BEST_EFFORT)
    assert picture_of([], [late, early], policy=FIFO).in_order() == [TaskId(2, 0), TaskId(1, 0)]


def test_fifo_serves_the_smaller_id_first_when_two_came_together() -> None:
    assert by_time(task(1, submitted_ms=5)) < by_time(task(2, submitted_ms=5))


def test_priority_serves_classes_strictly_then_priority_then_time() -> None:
    waiting = [
        task(1, priority_class=PriorityClass.BEST_EFFORT, priority=100),
        task(2, priority_class=PriorityClass.LOW),
        task(3, submitted_ms=30),
        task(4, submitted_ms=20),
        task(5, submitted_ms=40, priority=1),
        task(6, priority_class=PriorityClass.HIGH, priority=-5),
        task(7, priority_class=PriorityClass.REAL_TIME, priority=-9),
    ]
    order = [task_id.job_id for task_id in picture_of([], waiting, policy=PRIORITY).in_order()]
    assert order == [7, 6, 5, 4, 3, 2, 1]


def test_position_counts_everyone_who_is_served_before_whatever_they_ask_for() -> None:
    waiting = [task(1, asks(gpus=1)), task(2, asks(cpus=2)), task(3, asks(gpus=1)), task(4, priority=1)]
    picture = picture_of([], waiting)
    assert [picture.position(TaskId(job_id, 0)) for job_id in (1, 2, 3, 4)] == [2, 3, 4, 1]


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UnknownPolicyError, match="there is no policy 'sjf'; take one of fifo, priority"):
        named("sjf")
    with pytest.raises(UnknownPolicyError, match="there is no scorer 'best'; take one of tightest"):
        named("fifo", "best")


def test_a_line_keeps_its_order_through_adding_and_removing_in_any_order() -> None:
    line = Line()
    keys = [by_priority(task(job_id)) for job_id in range(2000)]
    for key in keys[1::2] + keys[::2]:
        line.add(key)
    for key in keys[:1200]:
        line.remove(key)
    line.remove(keys[1500])
    line.add(keys[7])
    left = [keys[7], *keys[1200:1500], *keys[1501:]]
    assert [line.at(position) for position in range(len(line))] == left
    assert line.at(len(left)) is None
    assert line.before(keys[1501]) == 301
    assert task_of(keys[7]) == TaskId(7, 0)
