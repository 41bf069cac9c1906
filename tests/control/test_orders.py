"""What nodes were told is said again until it is confirmed."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec import UNSET

from tests.control.control_story import FakeNode, picture_with, play, running, spec, task
from tgpu.control import wishes
from tgpu.control.hub import Hub
from tgpu.control.inbox import Inbox
from tgpu.control.orders import REPEAT_AFTER_S, OrderBook, launch_order
from tgpu.control.turn import Turn
from tgpu.domain.dialect import Dialect, DialectName
from tgpu.domain.ids import TaskId
from tgpu.domain.index_set import IndexSet
from tgpu.domain.lifecycle import Cause
from tgpu.domain.priority import PriorityClass
from tgpu.domain.series import Mode, Series
from tgpu.protocol.messages import Launch, Orders, Stop
from tgpu.store.port import Batch


def launch(**more: Any) -> Launch:
    facts: dict[str, Any] = {
        "attempt": "1.0.1",
        "job_name": "",
        "user": "ada",
        "command": ["true"],
        "cwd": "/",
        "env": {},
        "devices": (0,),
        "cpu_milli": 1000,
        "memory_mib": 0,
        "gpu_milli": 1000,
        "time_limit_s": None,
        "grace_s": 60,
        "cpu_limit_milli": 1000,
    }
    return Launch(**(facts | more))


def test_a_launch_order_says_everything_and_the_class_grants_the_grace() -> None:
    placed = picture_with(placed=[task(1)]).placed[TaskId(1, 0)]
    assert launch_order(placed, spec()) == launch()
    assert launch_order(placed, spec(priority_class=PriorityClass.LOW)).grace_s == 30
    assert launch_order(placed, spec(grace_s=0, time_limit_s=9)) == launch(grace_s=0, time_limit_s=9)


def test_a_launch_order_says_what_may_be_used_at_most() -> None:
    placed = picture_with(placed=[task(1, burst=True)]).placed[TaskId(1, 0)]
    asked = spec(priority_class=PriorityClass.LOW)
    (group,) = asked.groups
    more = replace(
        group, cpu_limit_milli=2500, memory_limit_mib=64, request=replace(group.request, disk_mib=9)
    )
    order = launch_order(placed, replace(asked, groups=(more,)))
    assert (order.cpu_limit_milli, order.memory_limit_mib, order.disk_mib) == (2500, 64, 9)
    assert (order.priority_class, order.burst) == (PriorityClass.LOW, True)
    whole = replace(group, request=replace(group.request, exclusive=True, memory_mib=9))
    order = launch_order(placed, replace(asked, groups=(whole,)))
    assert (order.cpu_limit_milli, order.memory_limit_mib) == (0, 0)


@pytest.mark.parametrize(
    ("more", "index"),
    [
        ({}, UNSET),
        ({"dialect": Dialect(DialectName.KUBERNETES)}, None),
        ({"series": Series(IndexSet.of([4, 9]), mode=Mode.INDEXED)}, 4),
        ({"series": Series(IndexSet.of([4, 9]))}, UNSET),
        ({"series": Series(IndexSet.of([0, 1]), mode=Mode.COUNTED)}, None),
        ({"series": Series(IndexSet.of([0, 1]), mode=Mode.WORK_QUEUE)}, None),
    ],
)
def test_only_tasks_of_indexed_jobs_have_a_completion_index(more: dict[str, Any], index: object) -> None:
    placed = picture_with(placed=[task(1)]).placed[TaskId(1, 0)]
    assert launch_order(placed, spec(**more)).completion_index == index


def test_a_launch_is_repeated_until_it_runs() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        node.says_hello()
        picture = picture_with(placed=[task(1)])
        book.launch(picture.placed[TaskId(1, 0)], spec(), 0.0)
        for now in (0.0, REPEAT_AFTER_S / 2, REPEAT_AFTER_S):
            book.say_again(picture, now)
            book.send()
        assert node.launched() == ["1.0.1", "1.0.1"]
        running(picture, 1)
        book.say_again(picture, 99.0)
        book.send()
        assert node.launched() == ["1.0.1", "1.0.1"]
        assert not book.knows_launch(TaskId(1, 0).attempt(1))

    play(story())


def test_a_stop_replaces_the_launch_and_is_repeated_until_it_is_over() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        node.says_hello()
        picture = picture_with(placed=[task(1, cancel_by="bob")])
        placed = picture.placed[TaskId(1, 0)]
        picture.stopping(placed, Cause.CANCELLED)
        book.stop(placed, 0.0)
        book.send()
        book.say_again(picture, REPEAT_AFTER_S)
        book.send()
        stop = Stop(attempt="1.0.1", cause=Cause.CANCELLED)
        assert node.heard[1:] == [Orders(session=node.session.number, stops=(stop,))] * 2
        picture.release(TaskId(1, 0))
        book.say_again(picture, 99.0)
        book.send()
        assert len(node.stopped()) == 2

    play(story())


def test_a_stop_says_why_and_a_wish_to_cancel_that_comes_later_does_not_change_it() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        node.says_hello()
        picture = picture_with(placed=[task(1)])
        placed = running(picture, 1)
        picture.stopping(placed, Cause.PREEMPTED)
        book.stop(placed, 0.0)
        book.send()
        turn = Turn(Batch(0))
        wishes.cancel(picture, TaskId(1, 0), "bob", turn)
        assert turn.batch == Batch(0)
        book.say_again(picture, REPEAT_AFTER_S)
        book.send()
        stop = Stop(attempt="1.0.1", cause=Cause.PREEMPTED)
        assert node.heard[1:] == [Orders(session=node.session.number, stops=(stop,))] * 2

    play(story())


def test_all_that_a_node_is_to_hear_goes_into_one_message_and_nothing_to_one_that_is_away() -> None:
    async def story() -> None:
        hub = Hub(Inbox())
        hub.lead("c", 1)
        node, book = FakeNode(hub), OrderBook(hub)
        node.says_hello()
        picture = picture_with(placed=[task(1), task(2)])
        book.launch(picture.placed[TaskId(1, 0)], spec(), 0.0)
        picture.stopping(picture.placed[TaskId(2, 0)], Cause.CANCELLED)
        book.stop(picture.placed[TaskId(2, 0)], 0.0)
        book.forget("n1", "9.0.1")
        book.forget("n2", "9.0.1")
        book.send()
        book.send()
        assert node.heard[1:] == [
            Orders(
                session=node.session.number,
                launches=(launch(),),
                stops=(Stop(attempt="2.0.1", cause=Cause.CANCELLED),),
                forget=("9.0.1",),
            )
        ]

    play(story())
