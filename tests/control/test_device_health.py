"""GPUs that fail under tasks, and GPUs that others use: who is stopped, what becomes of it, who is told."""

from dataclasses import replace

import pytest

from tests.control.control_story import capacity, hello, picture_with, running, says, task
from tgpu.control import device_health, reports
from tgpu.control.inbox import NodeChanged, NodeEvent, NodeReported, NodeSaidHello
from tgpu.control.turn import Turn
from tgpu.core.explain import explain
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import OnGpuFailure
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.domain.node import Capacity, ForeignUse
from tgpu.protocol.messages import Phase, Report
from tgpu.store.port import AttemptEnded, Batch, StopOrdered

FIRST = TaskId(1, 0)
ATTEMPT = FIRST.attempt(1)
LOST = "Xid 79: it has fallen off the bus; it needs a reset"
WHY = f"GPU 0 of n1: {LOST}"
ENDED = Exit(Cause.DEVICE_LOST, signal=15, detail=WHY, started_ms=1000, ended_ms=2000)


def ill(index: int = 0, *, lost: bool = True, note: str = LOST) -> Capacity:
    devices = list(capacity(gpus=4).devices)
    devices[index] = replace(devices[index], healthy=False, lost=lost, note=note)
    return replace(capacity(), devices=tuple(devices))


def after(picture: Picture, *events: NodeEvent) -> Turn:
    turn = Turn(Batch(0))
    for event in events:
        reports.take_in(picture, event, turn, {})
    return turn


def gpu_failure_means(picture: Picture, what: OnGpuFailure) -> None:
    picture.policy = replace(picture.policy, on_gpu_failure=what)


def test_what_runs_on_a_gpu_that_failed_is_stopped_and_nobody_else() -> None:
    picture = picture_with(placed=[task(1), task(2)])
    running(picture, 1)
    turn = after(picture, NodeChanged("n1", ill()))
    assert turn.batch.stop_ordered == [StopOrdered(ATTEMPT, Cause.DEVICE_LOST, WHY)]
    placed = picture.placed[FIRST]
    assert (placed.state, placed.stop_detail) == (AttemptState.STOPPING, WHY)
    assert picture.placed[TaskId(2, 0)].state is AttemptState.ASSIGNED
    assert after(picture, NodeChanged("n1", ill())).batch.stop_ordered == [], "it is told once"
    why = explain(picture, picture.policy, FIRST)
    assert why is not None
    assert why.summary == f"is being stopped on n1, GPU 0: {WHY}"


def test_a_gpu_that_had_failed_when_its_node_came_back_is_no_different() -> None:
    picture = picture_with(placed=[task(1)])
    running(picture, 1)
    turn = after(picture, NodeSaidHello(7, hello(says("1.0.1"), has=ill())))
    assert [stop.cause for stop in turn.batch.stop_ordered] == [Cause.DEVICE_LOST]


def test_it_waits_again_and_starts_elsewhere() -> None:
    picture = picture_with(placed=[task(1)])
    running(picture, 1)
    after(picture, NodeChanged("n1", ill()))
    turn = after(picture, NodeReported(7, "n1", Report(seq=3, attempts=(says("1.0.1", Phase.ENDED, ENDED),))))
    words = f"its GPU failed: {WHY}"
    assert turn.batch.ended == [AttemptEnded(ATTEMPT, ENDED, Happening.REQUEUED, words)]
    assert picture.waiting[FIRST].status is Status.PENDING
    (start,) = plan(picture, picture.policy).starts
    assert (start.node_id, start.devices) == ("n1", (1,))


@pytest.mark.parametrize("state", [AttemptState.ASSIGNED, AttemptState.STOPPING])
def test_one_that_is_being_stopped_already_is_left_at_that(state: AttemptState) -> None:
    picture = picture_with(placed=[task(1)])
    if state is AttemptState.STOPPING:
        picture.stopping(picture.placed[FIRST], Cause.CANCELLED)
    stops = after(picture, NodeChanged("n1", ill())).batch.stop_ordered
    assert len(stops) == (state is AttemptState.ASSIGNED)


def test_a_gpu_that_is_only_to_be_spared_keeps_its_task() -> None:
    picture = picture_with(placed=[task(1)])
    hot = ill(lost=False, note="it is at 90 °C or more")
    assert after(picture, NodeChanged("n1", hot)).batch.stop_ordered == []


def test_where_tasks_are_kept_nobody_is_stopped() -> None:
    picture = picture_with(placed=[task(1)])
    gpu_failure_means(picture, OnGpuFailure.KEEP)
    assert after(picture, NodeChanged("n1", ill())).batch.stop_ordered == []


def test_where_tasks_fail_with_their_gpu_it_is_not_tried_again() -> None:
    picture = picture_with(placed=[task(1)])
    gpu_failure_means(picture, OnGpuFailure.FAIL)
    running(picture, 1)
    assert len(after(picture, NodeChanged("n1", ill())).batch.stop_ordered) == 1
    turn = after(picture, NodeReported(7, "n1", Report(seq=3, attempts=(says("1.0.1", Phase.ENDED, ENDED),))))
    words = f"its GPU failed: {WHY}; the setting on_gpu_failure forbids to try again"
    assert turn.batch.ended == [AttemptEnded(ATTEMPT, ENDED, Happening.FAILED, words)]


def test_somebody_is_told_of_gpus_that_are_ill_and_of_those_that_others_use() -> None:
    picture = picture_with(nodes=("n1", "n2", "n3"))
    assert device_health.alerts(picture) == {"gpu-unhealthy": None, "gpu-foreign": None}
    devices = list(ill(1).devices)
    devices[3] = replace(devices[3], foreign=(ForeignUse(4711, "bob", "python", 12288),))
    for name in ("n1", "n3"):
        node = picture.places[name].node
        picture.set_node(replace(node, capacity=replace(node.capacity, devices=tuple(devices))))
    picture.set_state("n3", NodeState.OFFLINE)
    assert device_health.alerts(picture) == {
        "gpu-unhealthy": f"not given out: GPU 1 of n1 ({LOST}): see `tgpu nodes`, and docs/gpus.md for what "
        "helps",
        "gpu-foreign": "GPU 3 of n1 is used by bob outside of tgpu: python, 12 GiB: ask them to use tgpu, or "
        "see foreign_gpu_use in docs/gpus.md",
    }
