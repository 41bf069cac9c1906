"""What nodes say, brought into the picture and onto paper."""

from dataclasses import replace

import msgspec
import pytest

from tests.control.control_story import DONE, POLICY, capacity, hello, picture_with, running, says, task
from tgpu.control import reports
from tgpu.control.inbox import NodeChanged, NodeEvent, NodeLeft, NodeReported, NodeSaidHello
from tgpu.control.turn import Turn
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import AttemptState, Cause, Happening, NodeState, Status
from tgpu.domain.node import Drain, Node
from tgpu.protocol.messages import AttemptReport, Phase, Report
from tgpu.store.port import AttemptEnded, Batch, Started

FIRST = TaskId(1, 0)
ATTEMPT = FIRST.attempt(1)


def after(picture: Picture, *events: NodeEvent) -> Turn:
    turn = Turn(Batch(0))
    for event in events:
        reports.take_in(picture, event, turn, {})
    return turn


def reported(*attempts: AttemptReport, node_id: str = "n1") -> NodeReported:
    return NodeReported(7, node_id, Report(seq=3, attempts=attempts))


def test_a_start_is_written_down_once() -> None:
    picture = picture_with(placed=[task(1)])
    turn = after(picture, reported(says("1.0.1")), reported(says("1.0.1")))
    assert turn.batch == Batch(0, started=[Started(ATTEMPT, 1000)])
    assert turn.acknowledgements == [("n1", 7, 3), ("n1", 7, 3)]
    assert turn.waits == [("default", 1.0)]
    placed = picture.placed[FIRST]
    assert (placed.state, placed.task.status, placed.started_ms) == (
        AttemptState.RUNNING,
        Status.RUNNING,
        1000,
    )


def test_a_node_that_is_still_starting_it_changes_nothing() -> None:
    picture = picture_with(placed=[task(1)])
    assert after(picture, reported(says("1.0.1", Phase.STARTING))).batch == Batch(0)
    assert picture.placed[FIRST].state is AttemptState.ASSIGNED


def test_an_end_frees_the_room_and_brings_its_start_with_it() -> None:
    picture = picture_with(placed=[task(1)])
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, DONE)))
    assert turn.batch == Batch(0, ended=[AttemptEnded(ATTEMPT, DONE, Happening.SUCCEEDED)])
    assert turn.waits == [("default", 1.0)]
    assert picture.placed == {}
    assert picture.left("n1").gpu_free == tuple([1000] * 4)


def test_an_end_that_is_told_twice_is_taken_once_and_then_forgotten() -> None:
    ended = reported(says("1.0.1", Phase.ENDED, DONE))
    turn = after(picture_with(placed=[task(1)]), ended, ended)
    assert len(turn.batch.ended) == 1
    assert turn.forget == [("n1", "1.0.1")]


def test_what_died_with_its_machine_waits_again_with_the_next_number() -> None:
    picture = picture_with(placed=[task(1)])
    running(picture, 1)
    how = Exit(Cause.REBOOTED, started_ms=1000)
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, how)))
    assert turn.batch == Batch(
        0, ended=[AttemptEnded(ATTEMPT, how, Happening.REQUEUED, "its machine restarted")]
    )
    waiting = picture.waiting[FIRST]
    assert (waiting.status, waiting.attempts) == (Status.PENDING, 1)


WORDS = "gave way to a task of a higher class"


def told_to_go(*, attempts: int = 0, cancel_by: str | None = None) -> Picture:
    """Job 1 runs and has been told to make way for another."""
    picture = picture_with(placed=[task(1, attempts=attempts, cancel_by=cancel_by)])
    picture.stopping(running(picture, 1), Cause.PREEMPTED)
    picture.now_ms = 5000
    return picture


def test_what_gave_way_waits_at_its_old_place_but_not_at_once() -> None:
    picture = told_to_go()
    how = Exit(Cause.PREEMPTED, signal=15, started_ms=1000, ended_ms=4900)
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, how)))
    assert turn.batch == Batch(0, ended=[AttemptEnded(ATTEMPT, how, Happening.PREEMPTED, WORDS)])
    waiting = picture.waiting[FIRST]
    assert (waiting.status, waiting.attempts, waiting.submitted_ms) == (Status.PREEMPTED, 1, 0)
    assert waiting.eligible_ms == 5000 + 1000 * POLICY.backoff_s
    assert picture.left("n1").gpu_free == tuple([1000] * 4)
    assert turn.completions == []


@pytest.mark.parametrize(
    ("attempts", "backoff_s"), [(0, 10), (1, 20), (2, 40), (5, 320), (6, 600), (99, 600)]
)
def test_each_further_attempt_doubles_how_long_it_is_kept_back_up_to_ten_minutes(
    attempts: int, backoff_s: int
) -> None:
    picture = told_to_go(attempts=attempts)
    how = Exit(Cause.PREEMPTED, signal=15, started_ms=1000)
    after(picture, reported(says(f"1.0.{attempts + 1}", Phase.ENDED, how)))
    assert picture.waiting[FIRST].eligible_ms == 5000 + 1000 * backoff_s


def test_what_is_kept_back_is_not_started_before_its_time() -> None:
    picture = told_to_go()
    after(picture, reported(says("1.0.1", Phase.ENDED, Exit(Cause.PREEMPTED, started_ms=1000))))
    picture.now_ms = 14999
    assert list(plan(picture, POLICY, whole=True).starts) == []
    picture.now_ms = 15000
    assert [start.task_id for start in plan(picture, POLICY, whole=True).starts] == [FIRST]


def test_what_is_cancelled_while_it_gives_way_ends_as_cancelled() -> None:
    picture = told_to_go(cancel_by="bob")
    how = Exit(Cause.PREEMPTED, signal=15, started_ms=1000, ended_ms=4900)
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, how)))
    assert turn.batch.ended == [AttemptEnded(ATTEMPT, how, Happening.CANCELLED, WORDS)]
    assert (picture.waiting, picture.placed) == ({}, {})
    assert turn.completions == [("cancelled", 4.9)]


def test_what_was_done_before_the_stop_reached_it_is_completed() -> None:
    picture = told_to_go()
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, DONE)))
    assert turn.batch.ended == [AttemptEnded(ATTEMPT, DONE, Happening.SUCCEEDED)]
    assert (picture.waiting, picture.placed) == ({}, {})


def test_what_saves_its_work_and_exits_with_0_when_it_is_told_to_go_waits_again() -> None:
    picture = told_to_go()
    how = Exit(Cause.PREEMPTED, exit_code=0, started_ms=1000)
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, how)))
    assert [ended.happening for ended in turn.batch.ended] == [Happening.PREEMPTED]
    assert list(picture.waiting) == [FIRST]


def test_what_dies_with_its_machine_while_it_gives_way_is_tried_again_without_a_delay() -> None:
    picture = told_to_go()
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, Exit(Cause.REBOOTED, started_ms=1000))))
    assert [ended.happening for ended in turn.batch.ended] == [Happening.REQUEUED]
    assert (picture.waiting[FIRST].status, picture.waiting[FIRST].eligible_ms) == (Status.PENDING, 0)


def test_an_attempt_that_nobody_here_knows_is_to_be_forgotten() -> None:
    picture = picture_with(placed=[task(1, attempts=1)], nodes=["n1", "n2"])
    turn = after(picture, reported(says("9.0.1"), says("1.0.1")), reported(says("1.0.2"), node_id="n2"))
    assert turn.forget == [("n1", "9.0.1"), ("n1", "1.0.1"), ("n2", "1.0.2")]
    assert turn.batch == Batch(0)


def test_a_new_node_joins_with_what_it_has() -> None:
    picture = picture_with(nodes=[])
    picture.now_ms = 5
    node = Node("n1", NodeState.READY, capacity(), boot_id="b", joined_ms=5, heard_ms=5, taints=("spot",))
    said = msgspec.structs.replace(hello(), taints=("spot",))
    assert after(picture, NodeSaidHello(7, said)).batch == Batch(0, nodes=[node])
    assert picture.places["n1"].takes_tasks


def test_a_node_that_comes_back_keeps_when_it_joined_and_that_it_drains() -> None:
    picture, drain = picture_with(), Drain("ann", 4, "new fans")
    picture.set_node(replace(picture.places["n1"].node, state=NodeState.OFFLINE, drain=drain, joined_ms=3))
    picture.now_ms = 9
    (node,) = after(picture, NodeSaidHello(7, hello())).batch.nodes
    assert (node.state, node.joined_ms, node.heard_ms, node.drain) == (NodeState.DRAINING, 3, 9, drain)


def test_a_node_that_was_offline_is_ready_when_it_says_hello() -> None:
    picture = picture_with()
    picture.set_node(replace(picture.places["n1"].node, state=NodeState.OFFLINE))
    (node,) = after(picture, NodeSaidHello(7, hello())).batch.nodes
    assert node.state is NodeState.READY


def test_a_hello_tells_what_runs_and_what_ended_meanwhile() -> None:
    picture = picture_with(placed=[task(1), task(2), task(3)])
    running(picture, 2)
    turn = after(
        picture, NodeSaidHello(7, hello(says("1.0.1"), says("2.0.1", Phase.ENDED, DONE), says("8.0.1")))
    )
    assert turn.batch.started == [Started(ATTEMPT, 1000)]
    assert turn.batch.ended == [AttemptEnded(TaskId(2, 0).attempt(1), DONE, Happening.SUCCEEDED)]
    assert turn.forget == [("n1", "8.0.1")]
    assert turn.remind == ["n1"]


def test_what_had_started_and_is_gone_from_its_node_is_lost() -> None:
    picture = picture_with(placed=[task(1, requeue=False)])
    running(picture, 1)
    picture.now_ms = 9000
    turn = after(picture, NodeSaidHello(7, hello()))
    how = Exit(Cause.NODE_LOST, detail="the node has no record of it", started_ms=1000, ended_ms=9000)
    words = "its node lost it: the node has no record of it; --no-requeue forbids to try again"
    assert turn.batch.ended == [AttemptEnded(ATTEMPT, how, Happening.FAILED, words)]


def test_a_node_that_comes_back_is_reminded_of_an_open_stop() -> None:
    picture = picture_with(placed=[task(1)])
    running(picture, 1).state = AttemptState.STOPPING
    assert after(picture, NodeSaidHello(7, hello(says("1.0.1")))).remind == ["n1"]


def test_a_stop_stays_a_stop_when_the_start_is_heard_late() -> None:
    picture = picture_with(placed=[task(1)])
    picture.placed[FIRST].state = AttemptState.STOPPING
    turn = after(picture, reported(says("1.0.1")))
    assert turn.batch.started == [Started(ATTEMPT, 1000)]
    assert picture.placed[FIRST].state is AttemptState.STOPPING


def test_a_device_that_falls_ill_is_known_and_what_runs_stays() -> None:
    picture = picture_with(placed=[task(1)])
    devices = list(capacity(gpus=4).devices)
    devices[1] = replace(devices[1], healthy=False)
    ill = replace(capacity(), devices=tuple(devices))
    turn = after(picture, NodeChanged("n1", ill), NodeChanged("stranger", ill))
    assert [node.capacity for node in turn.batch.nodes] == [ill]
    assert picture.left("n1").gpu_free == (0, 1000, 1000, 1000)


def test_a_node_that_leaves_takes_nothing_new() -> None:
    picture = picture_with(placed=[task(1)])
    assert after(picture, NodeLeft("n1"), NodeLeft("stranger")).batch == Batch(0)
    assert not picture.places["n1"].takes_tasks
    assert list(picture.placed) == [FIRST]


def test_task_whose_supervisor_was_killed_is_tried_again_after_a_while() -> None:
    picture = picture_with(placed=[task(1)])
    running(picture, 1)
    turn = after(picture, reported(says("1.0.1", Phase.ENDED, Exit(Cause.SUPERVISOR_LOST, ended_ms=2000))))
    (ended,) = turn.batch.ended
    assert ended.happening is Happening.REQUEUED
    assert picture.waiting[FIRST].eligible_ms == ended.eligible_ms > picture.now_ms
