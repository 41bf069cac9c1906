"""The store's facts as a picture."""

import pytest

from tests.control.control_story import POLICY, capacity, task
from tgpu.control.picture_loader import InconsistentWorldError, picture_of
from tgpu.core.picture import Placed
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import AttemptState, NodeState, Status
from tgpu.domain.node import Node
from tgpu.store.port import World

NODE = Node("n1", NodeState.READY, capacity())


def test_everything_that_lives_is_in_the_picture_and_nobody_is_connected_yet() -> None:
    running, waiting = task(1, status=Status.RUNNING, attempts=2), task(2)
    attempt = Attempt(TaskId(1, 0).attempt(2), AttemptState.RUNNING, "n1", (1,), 5, 10)
    picture = picture_of(World(9, [NODE], [running, waiting], [attempt]), POLICY, 77)
    assert picture.now_ms == 77
    assert list(picture.waiting.values()) == [waiting]
    assert picture.placed == {
        TaskId(1, 0): Placed(running, attempt.attempt_id, "n1", (1,), AttemptState.RUNNING, 10, 5)
    }
    assert picture.left("n1").gpu_free == (1000, 0)
    assert not picture.places["n1"].takes_tasks


def test_a_task_that_is_said_to_run_and_has_no_attempt_is_a_contradiction() -> None:
    world = World(9, [NODE], [task(1, status=Status.RUNNING)], [])
    with pytest.raises(InconsistentWorldError, match=r"task 1\.0 is running without a live attempt"):
        picture_of(world, POLICY, 0)
