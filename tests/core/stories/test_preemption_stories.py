"""Who gives way, and to whom?"""

from dataclasses import replace

import pytest

from tests.core.core_story import (
    NOW_MS,
    PRIORITY,
    asks,
    at,
    carry_out,
    claim,
    decisions,
    gang,
    node,
    picture_of,
    preempt,
    reservation,
    start,
    task,
)
from tgpu.core.picture import Picture
from tgpu.core.plan import Preempt
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.lifecycle import Cause, NodeState, Status
from tgpu.domain.priority import PriorityClass

HIGH, DEFAULT, LOW = PriorityClass.HIGH, PriorityClass.DEFAULT, PriorityClass.LOW
WHOLE = asks(gpus=1)
Held = tuple[TaskBrief, str, tuple[int, ...]]


def low(
    job_id: int, device: int | None = None, node_id: str = "n1", limit_s: int = 1000, **more: object
) -> Held:
    """A task of a low class that holds one GPU, or one CPU."""
    devices = () if device is None else (device,)
    request = asks(gpus=len(devices))
    return task(job_id, request, LOW, time_limit_s=limit_s, **more), node_id, devices  # type: ignore[arg-type]


def test_who_has_no_room_stops_one_of_a_lower_class_and_claims_its_place() -> None:
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH)], [low(9, 0)])
    assert decisions(plan(picture, PRIORITY)) == ((), (preempt([9], claim(1, "n1", 0)),), ())


@pytest.mark.parametrize("theirs", [HIGH, PriorityClass.REAL_TIME])
def test_nobody_stops_one_of_the_same_or_a_higher_class(theirs: PriorityClass) -> None:
    placed = [(task(9, WHOLE, theirs, time_limit_s=100), "n1", (0,))]
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH, priority=99)], placed)
    assert decisions(plan(picture, PRIORITY)) == ((), (), (reservation(1, 100, "n1", 0),))


def test_nobody_is_stopped_where_there_is_room() -> None:
    picture = picture_of([node("n1", gpus=1), node("n2", gpus=1)], [task(1, WHOLE, HIGH)], [low(9, 0)])
    assert decisions(plan(picture, PRIORITY)) == ((start(1, "n2", 0),), (), ())


def test_preemption_can_be_switched_off() -> None:
    policy = Policy(PoolPolicy("priority"), preemption=False)
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH)], [low(9, 0)], policy)
    assert decisions(plan(picture, policy)) == ((), (), (reservation(1, 1000, "n1", 0),))


def test_as_few_as_possible_are_stopped_whatever_they_lose() -> None:
    """Two small ones would lose 20 seconds, the large one a day."""
    large = (task(7, asks(gpus=2), LOW, time_limit_s=86400), "n2", (0, 1))
    placed = [low(8, 0, limit_s=10), low(9, 1, limit_s=10), large]
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=2)], [task(1, asks(gpus=2), HIGH)], placed)
    assert plan(picture, PRIORITY).preempts == (preempt([7], claim(1, "n2", 0, 1)),)


def test_of_equally_few_those_are_stopped_who_lose_least() -> None:
    placed = [low(7, 0, limit_s=300), low(8, 1, limit_s=100), low(9, 2, limit_s=200)]
    picture = picture_of([node(gpus=3)], [task(1, WHOLE, HIGH)], placed)
    assert plan(picture, PRIORITY).preempts == (preempt([8], claim(1, "n1", 1)),)


def test_one_who_has_saved_its_work_loses_only_what_came_after() -> None:
    placed = [low(8, 0, limit_s=100), low(9, 1, limit_s=9999, checkpoint_ms=NOW_MS - 50_000)]
    picture = picture_of([node(gpus=2)], [task(1, WHOLE, HIGH)], placed)
    assert plan(picture, PRIORITY).preempts == (preempt([9], claim(1, "n1", 1)),)


def test_of_equal_losses_the_smaller_node_and_then_the_smaller_attempt_decides() -> None:
    placed = [low(8, 0, "n2"), low(9, 0, "n1"), low(7, 1, "n2")]
    nodes = [node("n1", gpus=1), node("n2", gpus=2)]
    assert plan(picture_of(nodes, [task(1, WHOLE, HIGH)], placed), PRIORITY).preempts == (
        preempt([9], claim(1, "n1", 0)),
    )
    picture = picture_of(nodes[1:], [task(1, WHOLE, HIGH)], [placed[0], placed[2]])
    assert plan(picture, PRIORITY).preempts == (preempt([7], claim(1, "n2", 1)),)


def test_nobody_is_stopped_before_its_minimum_run_time() -> None:
    policy = Policy(PoolPolicy("priority"), min_run_s=300)
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH)], [low(9, 0)], policy)
    picture.now_ms = at(299)
    assert plan(picture, policy).preempts == ()
    picture.now_ms = at(300)
    assert plan(picture, policy).preempts == (preempt([9], claim(1, "n1", 0)),)


def test_one_who_is_being_stopped_already_is_waited_for() -> None:
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH)], [low(9, 0)])
    picture.stopping(picture.placed[TaskId(9, 0)], Cause.CANCELLED)
    assert decisions(plan(picture, PRIORITY)) == ((), (), (reservation(1, 30, "n1", 0),))


def test_a_gang_is_stopped_whole_and_counts_all_its_tasks() -> None:
    members = gang(8, [WHOLE] * 2, LOW, time_limit_s=10)
    placed = [(members[0], "n1", (0,)), (members[1], "n2", (0,))]
    nodes = [node("n1", gpus=1), node("n2", gpus=1)]
    made = plan(picture_of(nodes, [task(1, WHOLE, HIGH)], placed), PRIORITY)
    both = (TaskId(8, 0).attempt(1), TaskId(8, 1).attempt(1))
    assert made.preempts == (Preempt(both, (claim(1, "n1", 0),)),)
    nodes.append(node("n3", gpus=1))
    made = plan(picture_of(nodes, [task(1, WHOLE, HIGH)], [*placed, low(9, 0, "n3", 9999)]), PRIORITY)
    assert made.preempts == (preempt([9], claim(1, "n3", 0)),)


def test_nobody_is_stopped_if_that_would_not_be_enough() -> None:
    """One of the two GPUs is held by an equal: stopping the other would help nobody."""
    placed = [low(8, 0), (task(9, WHOLE, HIGH, time_limit_s=500), "n1", (1,))]
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2), HIGH)], placed)
    assert decisions(plan(picture, PRIORITY)) == ((), (), (reservation(1, 1000, "n1", 0, 1),))


def test_what_is_lacking_beside_gpus_is_freed_as_well() -> None:
    placed = [low(8, 0), (task(9, asks(cpus=7), LOW), "n1", ())]
    picture = picture_of([node(gpus=1)], [task(1, asks(gpus=1, cpus=4), HIGH)], placed)
    assert plan(picture, PRIORITY).preempts == (preempt([8, 9], claim(1, "n1", 0)),)


def test_a_preempted_task_does_not_preempt_in_turn() -> None:
    again = task(1, WHOLE, HIGH, status=Status.PREEMPTED)
    picture = picture_of([node(gpus=1)], [again], [low(9, 0)])
    assert decisions(plan(picture, PRIORITY)) == ((), (), (reservation(1, 1000, "n1", 0),))


def test_a_cascade_comes_to_an_end() -> None:
    """high stops default; default, preempted, waits and does not stop low."""
    placed = [(task(8, WHOLE, DEFAULT, time_limit_s=9), "n1", (0,)), low(9, 1)]
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=1, cpus=7), HIGH)], placed)
    rounds = 0
    while (made := plan(picture, PRIORITY, whole=True)).starts or made.preempts:
        carry_out(picture, made)
        picture.now_ms += 600_000
        for placed_now in list(picture.placed.values()):
            if placed_now.stop_by_ms is not None:
                leaves(picture, placed_now.task.task_id)
        rounds += 1
        assert rounds < 5
    assert set(picture.waiting) == {TaskId(8, 0), TaskId(9, 0)} - set(picture.placed)
    assert TaskId(1, 0) in picture.placed


def leaves(picture: Picture, task_id: TaskId) -> None:
    gone = picture.release(task_id).task
    picture.add_waiting(replace(gone, status=Status.PREEMPTED))


def test_a_claim_starts_once_its_last_victim_is_gone() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2), HIGH)], [low(8, 0), low(9, 1)])
    carry_out(picture, plan(picture, PRIORITY))
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())
    leaves(picture, TaskId(8, 0))
    assert plan(picture, PRIORITY).starts == ()
    leaves(picture, TaskId(9, 0))
    made = plan(picture, PRIORITY)
    assert (made.starts, made.preempts) == ((start(1, "n1", 0, 1),), ())
    carry_out(picture, made)
    assert picture.claims == {}
    assert picture.preempts == []


def test_nobody_else_gets_the_room_that_is_claimed() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2), HIGH)], [low(8, 0), low(9, 1)])
    carry_out(picture, plan(picture, PRIORITY))
    leaves(picture, TaskId(8, 0))
    picture.add_waiting(task(2, WHOLE, PriorityClass.REAL_TIME))
    assert plan(picture, PRIORITY).starts == ()


def test_who_claims_room_is_charged_at_once_and_its_victims_no_longer() -> None:
    """a has claimed the GPU, b has lost it: of the rest b is served first."""
    policy = Policy(PoolPolicy("drf"))
    waiting = [
        task(1, WHOLE, HIGH, tenant_id="a"),
        task(2, asks(), HIGH, tenant_id="a"),
        task(3, asks(cpus=2), HIGH, tenant_id="b"),
    ]
    placed = [low(9, 0, tenant_id="b")]
    made = plan(picture_of([node(gpus=1)], waiting, placed, policy), policy)
    assert made.preempts == (preempt([9], claim(1, "n1", 0)),)
    assert made.starts == (start(3), start(2))


def test_a_claim_is_given_up_when_its_node_takes_no_tasks_any_more() -> None:
    nodes = [node("n1", gpus=1), node("n2", gpus=1)]
    placed = [low(9, 0), (task(8, WHOLE, HIGH), "n2", (0,))]
    picture = picture_of(nodes, [task(1, WHOLE, HIGH)], placed)
    carry_out(picture, plan(picture, PRIORITY))
    picture.set_state("n1", NodeState.DRAINING)
    picture.release(TaskId(8, 0))
    assert decisions(plan(picture, PRIORITY)) == ((start(1, "n2", 0),), (), ())


def test_two_in_one_plan_do_not_count_on_the_same_victim() -> None:
    waiting = [task(1, WHOLE, HIGH), task(2, WHOLE, HIGH)]
    picture = picture_of([node(gpus=2)], waiting, [low(8, 0), low(9, 1)])
    assert plan(picture, PRIORITY).preempts == (
        preempt([8], claim(1, "n1", 0)),
        preempt([9], claim(2, "n1", 1)),
    )


def test_burst_gives_way_before_everybody_else_and_to_everybody() -> None:
    best_effort = PriorityClass.BEST_EFFORT
    bursting = low(8, 0, limit_s=9999, burst=True)
    plain = (task(9, WHOLE, best_effort, time_limit_s=10), "n1", (1,))
    picture = picture_of([node(gpus=2)], [task(1, WHOLE, best_effort)], [bursting, plain])
    assert plan(picture, PRIORITY).preempts == (preempt([8], claim(1, "n1", 0)),)


def test_burst_gives_way_first_even_if_fewer_others_would_do() -> None:
    bursting = [low(7, 0, limit_s=9999, burst=True), low(8, 1, limit_s=9999, burst=True)]
    plain = (task(9, asks(gpus=2), LOW, time_limit_s=10), "n1", (2, 3))
    picture = picture_of([node(gpus=4)], [task(1, asks(gpus=2), HIGH)], [*bursting, plain])
    assert plan(picture, PRIORITY).preempts == (preempt([7, 8], claim(1, "n1", 0, 1)),)


def members(*requests: Request) -> list[TaskBrief]:
    return gang(1, requests, HIGH)


def test_a_gang_claims_for_all_its_tasks_or_stops_nobody() -> None:
    nodes = [node("n1", gpus=1), node("n2", gpus=1)]
    made = plan(picture_of(nodes, members(WHOLE, WHOLE), [low(9, 0)]), PRIORITY)
    claims = (claim(1, "n2", 0), claim(1, "n1", 0, index=1))
    assert decisions(made) == ((), (preempt([9], *claims),), ())
    other = (task(8, WHOLE, HIGH, time_limit_s=70), "n2", (0,))
    made = plan(picture_of(nodes, members(WHOLE, WHOLE), [low(9, 0), other]), PRIORITY)
    assert made.preempts == ()


def test_the_tasks_of_a_gang_share_what_one_victim_leaves() -> None:
    large = (task(9, asks(gpus=2), LOW), "n1", (0, 1))
    made = plan(picture_of([node(gpus=2)], members(WHOLE, WHOLE), [large]), PRIORITY)
    assert made.preempts == (preempt([9], claim(1, "n1", 0), claim(1, "n1", 1, index=1)),)


def test_room_that_is_reserved_is_not_made_for_somebody_else() -> None:
    """Both GPUs are reserved for a real-time task: stopping the low one would only delay it."""
    real_time = task(1, asks(gpus=2), PriorityClass.REAL_TIME)
    placed = [(task(8, WHOLE, PriorityClass.REAL_TIME, time_limit_s=100), "n1", (0,)), low(9, 1, limit_s=50)]
    picture = picture_of([node(gpus=2)], [real_time, task(2, WHOLE, HIGH)], placed)
    made = plan(picture, PRIORITY)
    assert decisions(made) == ((), (), (reservation(1, 100, "n1", 0, 1),))


def test_a_claim_takes_from_the_extra_of_the_reservations_beside_it() -> None:
    """At second 1000 the first needs 4 of 8 CPUs; 3 are claimed by the second, so the third cannot have 3."""
    real_time = PriorityClass.REAL_TIME
    placed = [
        (task(8, asks(gpus=1, cpus=0), real_time, time_limit_s=1000), "n1", (0,)),
        (task(9, asks(cpus=0, memory_mib=100), LOW, time_limit_s=500), "n1", ()),
    ]
    waiting = [
        task(1, asks(gpus=1, cpus=4), real_time),
        task(2, asks(cpus=3, memory_mib=50), HIGH),
        task(3, asks(cpus=3), DEFAULT),
        task(4, asks(cpus=1), DEFAULT),
    ]
    made = plan(picture_of([node(gpus=1, memory_mib=100)], waiting, placed), PRIORITY)
    assert made.preempts == (preempt([9], claim(2)),)
    assert made.reservations[:1] == (reservation(1, 1000, "n1", 0),)
    assert made.starts == (start(4),)


def test_a_claim_that_starts_is_taken_to_end_like_everybody_else() -> None:
    """So the next in line knows when."""
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH, time_limit_s=600)], [low(9, 0)])
    carry_out(picture, plan(picture, PRIORITY))
    picture.release(TaskId(9, 0))
    picture.add_waiting(task(2, WHOLE, HIGH))
    made = plan(picture, PRIORITY, whole=True)
    assert decisions(made) == ((start(1, "n1", 0),), (), (reservation(2, 600, "n1", 0),))


def test_once_an_exclusive_victim_is_gone_others_may_join_who_claimed_its_node() -> None:
    alone = (task(9, asks(exclusive=True), LOW), "n1", ())
    waiting = [task(1, asks(cpus=2), HIGH), task(2, asks(cpus=1), DEFAULT)]
    made = plan(picture_of([node()], waiting, [alone]), PRIORITY)
    assert decisions(made) == ((), (preempt([9], claim(1)),), (reservation(2, 30),))


def test_an_exclusive_claim_keeps_the_node_when_its_exclusive_victim_has_left() -> None:
    """The other half of the gang is still leaving elsewhere: nobody slips in between."""
    pair = gang(9, [asks(exclusive=True)] * 2, LOW)
    placed = [(pair[0], "n1", ()), (pair[1], "n2", ())]
    picture = picture_of([node("n1"), node("n2")], [task(1, asks(exclusive=True), HIGH)], placed)
    carry_out(picture, plan(picture, PRIORITY))
    picture.release(TaskId(9, 0))
    picture.add_waiting(task(2, asks(node_id="n1"), HIGH))
    assert plan(picture, PRIORITY, whole=True).starts == ()


def test_what_a_device_owes_until_its_victim_has_gone_does_not_count_as_free() -> None:
    """One device of n1 is in debt by what the other has left: n1 is no tighter for that."""
    placed = [
        low(9, 0),
        (task(8, WHOLE, HIGH), "n1", (1,)),
        (task(7, asks(gpus=0.5), HIGH), "n2", (0,)),
    ]
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=1)], [task(1, WHOLE, HIGH)], placed)
    carry_out(picture, plan(picture, PRIORITY))
    picture.release(TaskId(8, 0))
    assert picture.left("n1").gpu_free == (-1000, 1000)
    picture.add_waiting(task(2, asks(gpus=0.25), HIGH))
    assert plan(picture, PRIORITY, whole=True).starts == (start(2, "n2", 0),)


def test_a_gang_counts_its_live_tasks_on_a_node_when_it_makes_room_too() -> None:
    nodes = [node("n1", gpus=2), node("n2", gpus=1)]
    pair = gang(1, [WHOLE] * 2, HIGH, per_node=1)
    placed = [(pair[0], "n1", (0,)), low(8, 1, "n1", limit_s=5), low(9, 0, "n2")]
    picture = picture_of(nodes, [pair[1]], placed)
    assert plan(picture, PRIORITY).preempts == (preempt([9], claim(1, "n2", 0, index=1)),)


def test_a_claim_is_given_up_when_its_node_is_no_longer_what_it_was() -> None:
    picture = picture_of(
        [node(gpus=2)], [task(2, asks(gpus=2), HIGH)], [(task(1, asks(gpus=2), LOW), "n1", (0, 1))]
    )
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.claims) == [TaskId(2, 0)]
    picture.set_node(node(gpus=1))
    assert picture.claims == {}
    picture.release(TaskId(1, 0))
    assert plan(picture, PRIORITY).starts == ()
