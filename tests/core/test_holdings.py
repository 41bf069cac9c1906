"""Room that is taken by attempts which their tasks have left behind: nobody else is given it."""

from tests.core.core_story import PRIORITY, asks, node, picture_of, start, task
from tgpu.core.holdings import Holding, hold, holdings_on, let_go
from tgpu.core.invariants import violations
from tgpu.core.picture import Picture
from tgpu.core.plan import Claim, Preempt
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import AttemptState, Cause

OLD = TaskId(9, 0).attempt(1)


def left_behind(picture: Picture, request: Request, devices: tuple[int, ...] = (), on: str = "n1") -> None:
    hold(picture, Holding(OLD, on, devices, request, AttemptState.STOPPING))


def test_nothing_starts_in_its_room_until_it_is_gone() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2))])
    left_behind(picture, asks(gpus=1), (1,))
    assert plan(picture, PRIORITY).starts == ()
    assert let_go(picture, OLD).devices == (1,)
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0, 1),)


def test_it_is_counted_when_it_is_looked_for_what_is_given_out_twice() -> None:
    picture = picture_of([node(gpus=1, cpus=2)], [], [(task(1, asks(gpus=1, cpus=2)), "n1", (0,))])
    assert violations(picture) == []
    left_behind(picture, asks(gpus=0.5, cpus=1), (0,))
    assert violations(picture) == ["n1: 3000 cpu_milli given out of 2000", "n1: device 0 given out to 1500"]


def test_a_node_that_is_described_anew_still_has_it() -> None:
    picture = picture_of([node(gpus=2)])
    left_behind(picture, asks(gpus=1), (0,))
    picture.set_node(node(gpus=3))
    assert picture.left("n1").gpu_free == (0, 1000, 1000)
    let_go(picture, OLD)
    assert picture.left("n1").gpu_free == (1000, 1000, 1000)


def test_a_request_of_an_unknown_kind_finds_a_column() -> None:
    policy = Policy(cluster_generic={"licence": 2})
    picture = picture_of(
        [node(generic={"fpga": 1})], [task(1, asks(generic=(("licence", 2),)))], policy=policy
    )
    left_behind(picture, asks(generic=(("fpga", 1), ("licence", 1))))
    picture.add_waiting(task(2, asks(generic=(("tape", 1),))))
    assert plan(picture, policy).starts == ()
    assert [holding.attempt_id for holding in holdings_on(picture, "n1")] == [OLD]
    let_go(picture, OLD)
    assert plan(picture, policy).starts == (start(1),)


def test_a_claim_on_the_room_of_one_that_was_left_behind_waits_until_it_is_gone() -> None:
    victim = task(9, asks(gpus=1))
    picture = picture_of([node(gpus=1)], [task(1, asks(gpus=1))], [(victim, "n1", (0,))])
    placed = picture.placed[victim.task_id]
    picture.preempt(Preempt((placed.attempt_id,), (Claim(TaskId(1, 0), "n1", (0,)),)))
    picture.stopping(placed, Cause.PREEMPTED)
    picture.release(victim.task_id)
    hold(picture, Holding(placed.attempt_id, "n1", (0,), victim.request, AttemptState.STOPPING))
    assert plan(picture, PRIORITY).starts == ()
    let_go(picture, placed.attempt_id)
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0),)


def test_it_goes_with_its_node() -> None:
    picture = picture_of([node("n1", gpus=1), node("n2", gpus=1)])
    left_behind(picture, asks(gpus=1), (0,))
    picture.remove_node("n1")
    assert picture.table.holdings == {}
