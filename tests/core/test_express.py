"""The short way leads where the long one does."""

import random

import pytest

from tests.core.core_story import DRF, asks, carry_out, node, picture_of, task
from tgpu.core.express import express
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId


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
