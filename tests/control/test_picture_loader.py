"""The store's facts as a picture."""

from dataclasses import replace

import pytest

from tests.control.control_story import POLICY, capacity, spec, task
from tgpu.control.containment import JobFaultError
from tgpu.control.picture_loader import left_behind, picture_of
from tgpu.control.reconciler import drift
from tgpu.core.picture import Placed
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt
from tgpu.domain.lifecycle import AttemptState, Cause, NodeState, Status
from tgpu.domain.node import Node
from tgpu.store.lost import Origin
from tgpu.store.port import LiveSummary, World

NODE = Node("n1", NodeState.READY, capacity())


def test_everything_that_lives_is_in_the_picture_and_nobody_is_connected_yet() -> None:
    running, waiting = task(1, status=Status.RUNNING, attempts=2), task(2)
    attempt = Attempt(TaskId(1, 0).attempt(2), AttemptState.RUNNING, "n1", (1,), 5, 10)
    picture = picture_of(World(9, [NODE], [running, waiting], [attempt]), POLICY, 77, {})
    assert picture.now_ms == 77
    assert list(picture.waiting.values()) == [waiting]
    assert picture.placed == {
        TaskId(1, 0): Placed(running, attempt.attempt_id, "n1", (1,), AttemptState.RUNNING, 10, 5)
    }
    assert picture.left("n1").gpu_free == (1000, 0)
    assert not picture.places["n1"].takes_tasks


def test_a_task_that_is_said_to_run_and_has_no_attempt_is_a_contradiction() -> None:
    world = World(9, [NODE], [task(1, status=Status.RUNNING)], [])
    with pytest.raises(JobFaultError, match="job 1") as raised:
        picture_of(world, POLICY, 0, {})
    assert str(raised.value.__cause__) == "task 1.0 is running without a live attempt"


def test_who_was_left_behind_keeps_its_room_also_when_its_job_is_over() -> None:
    running = task(1, status=Status.RUNNING, attempts=2)
    current = Attempt(TaskId(1, 0).attempt(1), AttemptState.RUNNING, "n1", (0,), 5, 10)
    replaced = Attempt(
        TaskId(1, 0).attempt(2), AttemptState.STOPPING, "n2", (0,), 5, 10, stop_cause=Cause.SUPERSEDED
    )
    of_none = Attempt(
        TaskId(9, 0).attempt(1), AttemptState.STOPPING, "n2", (1,), 5, 10, stop_cause=Cause.SUPERSEDED
    )
    world = World(9, [NODE, replace(NODE, node_id="n2")], [running], [current, replaced, of_none])
    names = left_behind(world)
    assert names == [replaced.attempt_id, of_none.attempt_id]
    origins = {it.attempt_id: Origin(it, spec(gpus=1)) for it in (replaced, of_none)}
    picture = picture_of(world, POLICY, 0, origins)
    assert picture.placed[TaskId(1, 0)].attempt_id == current.attempt_id
    assert (picture.left("n1").gpu_free, picture.left("n2").gpu_free) == ((0, 1000), (0, 0))
    assert list(picture.table.holdings) == names
    assert drift(picture, LiveSummary({Status.RUNNING: (1, 1)}, _named(current, replaced, of_none))) == 0


def _named(*attempts: Attempt) -> set[tuple[AttemptId, str]]:
    return {(attempt.attempt_id, attempt.node_id) for attempt in attempts}
