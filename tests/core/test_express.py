"""The short way leads where the long one does."""

import random

import pytest

from tests.core.core_story import DRF, asks, carry_out, node, picture_of, start, task
from tgpu.core.express import express
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.views import Reason


@pytest.mark.parametrize("seed", range(40))
def test_when_all_who_wait_are_alike_both_ways_start_the_same(seed: int) -> None:
    dice = random.Random(seed)
    nodes = [node(f"n{number}", gpus=dice.randint(0, 3)) for number in range(dice.randint(1, 4))]
    request = asks(dice.choice((0, 0.25, 0.5, 1, 2)), dice.choice((0.5, 1, 2)))
    picture = picture_of(nodes, policy=DRF)
    carry_out(picture, plan(picture, DRF, whole=True))
    for number in range(1, dice.randint(2, 30)):
        picture.add_waiting(task(number, request, time_limit_s=dice.choice((None, 60, 600))))
    while picture.waiting:
        short, long = express(picture, DRF), plan(picture, DRF, whole=True)
        assert short is not None
        assert list(short.starts) == list(long.starts)
        carry_out(picture, short)
        if not picture.placed:
            return  # it never fits
        for task_id in dice.sample(sorted(picture.placed), min(3, len(picture.placed))):
            picture.release(task_id)


def test_two_kinds_are_not_that_simple() -> None:
    picture = picture_of([node()], [task(1, asks(cpus=100)), task(2, asks(cpus=1))], policy=DRF)
    carry_out(picture, plan(picture, DRF, whole=True))
    picture.add_waiting(task(3, asks(cpus=1)))
    assert express(picture, DRF) is None
    assert [start.task_id for start in plan(picture, DRF).starts] == [TaskId(3, 0)]


def test_the_short_way_obeys_a_rule_from_outside() -> None:
    def not_on_n1(_request: Request, candidate: Node) -> Reason | None:
        return Reason("no", "not there") if candidate.node_id == "n1" else None

    policy = Policy(PoolPolicy("fifo"), outside_rules={"mine": not_on_n1})
    picture = picture_of([node("n1"), node("n2", cpus=1)], policy=policy)
    carry_out(picture, plan(picture, policy, whole=True))
    for number in (1, 2):
        picture.add_waiting(task(number))
    made = express(picture, policy)
    assert made is not None
    assert made.starts == (start(1, "n2"),)
    assert made.faults == ()


def test_a_rule_that_fails_forbids_the_node_and_is_told_of_on_the_short_way_too() -> None:
    def broken(_request: Request, candidate: Node) -> Reason | None:
        if candidate.node_id == "n1":
            raise KeyError("n1")
        return None

    policy = Policy(PoolPolicy("fifo"), outside_rules={"broken": broken})
    picture = picture_of([node("n1"), node("n2")], policy=policy)
    carry_out(picture, plan(picture, policy, whole=True))
    picture.add_waiting(task(1))
    made = express(picture, policy)
    assert made is not None
    assert made.starts == (start(1, "n2"),)
    assert [fault.text for fault in made.faults] == ["rule broken failed on n1: KeyError: 'n1'"]


def test_the_short_way_goes_by_an_order_from_outside_and_not_past_a_scorer_from_outside() -> None:
    def newest_first(each: TaskBrief, _now_ms: int) -> tuple[int, ...]:
        return (-each.task_id.job_id,)

    policy = Policy(PoolPolicy("newest"), outside_orders={"newest": newest_first})
    picture = picture_of([node(cpus=1)], policy=policy)
    carry_out(picture, plan(picture, policy, whole=True))
    for number in (1, 2):
        picture.add_waiting(task(number))
    made = express(picture, policy)
    assert made is not None
    assert made.starts == (start(2),)
    scored = Policy(PoolPolicy("fifo", "mine"), outside_scorers={"mine": lambda *_: 1.0})
    picture = picture_of([node()], policy=scored)
    carry_out(picture, plan(picture, scored, whole=True))
    picture.add_waiting(task(1))
    assert express(picture, scored) is None


def _with_a_running(priority_class: PriorityClass) -> Picture:
    """On a node of 8 CPUs with room for nobody else of 4; the one who waits has been turned away."""
    running = [(task(number, asks(cpus=4), priority_class), "n1", ()) for number in (1, 2)]
    picture = picture_of([node()], placed=running, policy=DRF)
    carry_out(picture, plan(picture, DRF, whole=True))
    picture.add_waiting(task(3, asks(cpus=4)))
    return picture


def test_where_somebody_might_be_stopped_it_is_not_that_simple() -> None:
    picture = _with_a_running(PriorityClass.LOW)
    assert express(picture, DRF) is None
    assert [each.victims for each in plan(picture, DRF).preempts] == [(TaskId(1, 0).attempt(1),)]


def test_once_nobody_is_left_who_might_be_stopped_it_is_simple_again() -> None:
    picture = _with_a_running(PriorityClass.LOW)
    for task_id in list(picture.placed):
        picture.release(task_id)
    short = express(picture, DRF)
    assert short is not None
    assert [start.task_id for start in short.starts] == [TaskId(3, 0)]


def test_equals_are_not_stopped_so_it_is_that_simple() -> None:
    short = express(_with_a_running(PriorityClass.DEFAULT), DRF)
    assert short is not None
    assert list(short.starts) == []
