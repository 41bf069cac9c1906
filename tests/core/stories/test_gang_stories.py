"""All tasks or none."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from tests.core.core_story import (
    PRIORITY,
    asks,
    at,
    carry_out,
    decisions,
    gang,
    node,
    picture_of,
    start,
    task,
)
from tgpu.core.picture import Picture
from tgpu.core.plan import Plan, Reservation
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.node import Node
from tgpu.domain.priority import PriorityClass

PAIR = [asks(gpus=1)] * 2


def together(job_id: int, in_s: int, *places: tuple[str, tuple[int, ...]]) -> Reservation:
    return Reservation(tuple(TaskId(job_id, index) for index in range(len(places))), at(in_s), places)


def test_a_gang_starts_whole() -> None:
    made = plan(picture_of([node("n1", gpus=1), node("n2", gpus=1)], gang(1, PAIR)), PRIORITY)
    assert decisions(made) == ((start(1, "n1", 0), start(1, "n2", 0, index=1)), (), ())


def test_a_gang_that_has_room_for_all_but_one_starts_nobody_and_leaves_the_room() -> None:
    picture = picture_of([node(gpus=2)], [*gang(1, [asks(gpus=1)] * 3), task(2, asks(gpus=1))])
    assert decisions(plan(picture, PRIORITY)) == ((start(2, "n1", 0),), (), ())


def test_two_gangs_that_could_each_take_half_do_not_wait_for_each_other() -> None:
    picture = picture_of([node(gpus=3)], [*gang(1, PAIR), *gang(2, PAIR)])
    made = plan(picture, PRIORITY)
    assert made.starts == (start(1, "n1", 0), start(1, "n1", 1, index=1))
    assert made.reservations == (together(2, 24 * 3600, ("n1", (0,)), ("n1", (1,))),)


def test_a_gang_waits_until_all_its_tasks_are_known() -> None:
    first, second = gang(1, PAIR)
    picture = picture_of([node(gpus=2)], [first])
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())
    picture.add_waiting(second)
    assert len(plan(picture, PRIORITY).starts) == 2


def test_the_hardest_task_is_placed_first() -> None:
    """The small one would else take the only GPU of the large node, and the pair would have none."""
    members = gang(1, [asks(gpus=1), asks(gpus=2)])
    picture = picture_of([node("n1", gpus=2), node("n2", gpus=1)], members)
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0, 1, index=1), start(1, "n2", 0))


def test_who_may_be_on_one_node_only_is_placed_before_the_large_who_may_be_anywhere() -> None:
    members = gang(1, [asks(gpus=1), asks(gpus=0.5, node_selector=(("rack", "r1"),))])
    picture = picture_of([node("n1", gpus=1, labels={"rack": "r1"}), node("n2", gpus=1)], members)
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0, index=1), start(1, "n2", 0))


def test_a_node_gets_no_more_of_a_gang_than_it_says() -> None:
    nodes = [node("n1", gpus=4), node("n2", gpus=4)]
    picture = picture_of(nodes, gang(1, [asks(gpus=1)] * 4, per_node=2))
    assert [each.node_id for each in plan(picture, PRIORITY).starts] == ["n1", "n1", "n2", "n2"]
    picture = picture_of(nodes, gang(1, [asks(gpus=1)] * 5, per_node=2))
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())


def racks(*values: str) -> list[Node]:
    return [node(f"n{at}", gpus=1, labels={"rack": value}) for at, value in enumerate(values, 1)]


def test_all_of_a_gang_are_on_nodes_with_one_value_of_its_topology() -> None:
    picture = picture_of(racks("a", "b", "c", "b"), gang(1, PAIR, topology="rack"))
    assert [each.node_id for each in plan(picture, PRIORITY).starts] == ["n2", "n4"]


def test_the_topology_with_the_fewest_free_gpus_is_tried_first() -> None:
    nodes = racks("a", "a", "a", "b", "b")
    picture = picture_of(nodes, gang(1, PAIR, topology="rack"))
    assert [each.node_id for each in plan(picture, PRIORITY).starts] == ["n4", "n5"]


def test_a_node_without_the_label_is_in_no_topology() -> None:
    picture = picture_of([node("n1", gpus=2)], gang(1, PAIR, topology="rack"))
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())


def damaged(picture: Picture, job_id: int, index: int) -> None:
    """One task of a running gang is lost, and waits again."""
    lost = picture.release(TaskId(job_id, index)).task
    picture.add_waiting(replace(lost, status=Status.PENDING))


def test_a_damaged_gang_comes_before_everybody_else_of_its_class() -> None:
    picture = picture_of([node(gpus=2)], gang(5, PAIR))
    carry_out(picture, plan(picture, PRIORITY))
    damaged(picture, 5, 1)
    picture.add_waiting(task(1, asks(gpus=1), priority=9))
    assert plan(picture, PRIORITY).starts == (start(5, "n1", 1, index=1),)


def test_a_damaged_gang_stays_in_its_topology_and_counts_its_live_tasks() -> None:
    nodes = [
        node(name, gpus=2, labels={"rack": rack}) for name, rack in (("n1", "a"), ("n2", "a"), ("n3", "b"))
    ]
    picture = picture_of(nodes, gang(1, PAIR, topology="rack", per_node=1))
    carry_out(picture, plan(picture, PRIORITY))
    assert [placed.node_id for placed in picture.placed.values()] == ["n1", "n2"]
    damaged(picture, 1, 1)
    picture.add_waiting(task(2, asks(gpus=2, node_id="n2"), priority=9))
    assert plan(picture, PRIORITY).starts == (start(1, "n2", 0, index=1),)


def test_of_two_damaged_gangs_the_older_one_is_repaired_first() -> None:
    picture = picture_of([node(gpus=4)], [*gang(1, PAIR), *gang(2, PAIR)])
    carry_out(picture, plan(picture, PRIORITY))
    damaged(picture, 2, 0)
    damaged(picture, 1, 0)
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.placed)[-2:] == [TaskId(1, 0), TaskId(2, 0)]


def test_a_gang_that_cannot_start_gets_the_first_moment_at_which_all_have_room() -> None:
    placed = [
        (task(8, asks(gpus=1), time_limit_s=100), "n1", (0,)),
        (task(9, asks(gpus=1), time_limit_s=200), "n2", (0,)),
    ]
    picture = picture_of([node("n1", gpus=1), node("n2", gpus=1)], gang(1, PAIR), placed)
    expected = together(1, 200, ("n1", (0,)), ("n2", (0,)))
    assert decisions(plan(picture, PRIORITY)) == ((), (), (expected,))


def test_a_gang_that_loses_one_task_after_the_other_starts_again_whole() -> None:
    picture = picture_of([node(gpus=2)], gang(1, PAIR))
    carry_out(picture, plan(picture, PRIORITY))
    damaged(picture, 1, 0)
    damaged(picture, 1, 1)
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0), start(1, "n1", 1, index=1))


def test_a_gang_that_loses_more_while_it_makes_room_waits_until_the_claim_is_fulfilled() -> None:
    pair = gang(2, PAIR, per_node=1)
    placed = [(pair[0], "n1", (0,)), (task(9, asks(gpus=1), PriorityClass.LOW), "n2", (0,))]
    picture = picture_of([node("n1", gpus=1), node("n2", gpus=1)], [pair[1]], placed)
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.claims) == [TaskId(2, 1)]
    picture.release(TaskId(2, 0))
    picture.add_waiting(pair[0])
    for whole in (False, True):
        assert decisions(plan(picture, PRIORITY, whole=whole)) == ((), (), ())
    picture.release(TaskId(9, 0))
    carry_out(picture, plan(picture, PRIORITY))
    assert plan(picture, PRIORITY, whole=True).starts == (start(2, "n1", 0),)


def test_a_damaged_gang_waits_for_its_backoff_like_everybody_else() -> None:
    picture = picture_of([node(gpus=2)], gang(1, PAIR))
    carry_out(picture, plan(picture, PRIORITY))
    lost = picture.release(TaskId(1, 1)).task
    picture.add_waiting(replace(lost, status=Status.PREEMPTED, eligible_ms=at(10)))
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())
    picture.now_ms = at(10)
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 1, index=1),)


def test_a_gang_that_is_being_stopped_is_not_repaired_meanwhile() -> None:
    picture = picture_of([node(gpus=2)], gang(1, PAIR))
    carry_out(picture, plan(picture, PRIORITY))
    for placed in picture.placed.values():
        picture.stopping(placed, Cause.PREEMPTED)
    lost = picture.release(TaskId(1, 1)).task
    picture.add_waiting(replace(lost, status=Status.PREEMPTED))
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())


def test_a_damaged_gang_that_has_its_claims_already_is_not_served_twice() -> None:
    pair = gang(1, PAIR, PriorityClass.HIGH)
    victim = task(9, asks(gpus=1), PriorityClass.LOW)
    picture = picture_of([node(gpus=2)], [pair[1]], [(pair[0], "n1", (0,)), (victim, "n1", (1,))])
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.claims) == [TaskId(1, 1)]
    assert decisions(plan(picture, PRIORITY, whole=True)) == ((), (), ())
    picture.release(TaskId(9, 0))
    assert decisions(plan(picture, PRIORITY, whole=True)) == ((start(1, "n1", 1, index=1),), (), ())


def test_a_gang_that_lacks_only_licences_keeps_those_that_are_free() -> None:
    policy = Policy(PoolPolicy("priority"), cluster_generic={"matlab": 2})
    licensed = asks(generic=(("matlab", 1),))
    placed = [(task(9, licensed), "n1", ())]
    picture = picture_of([node()], [*gang(1, [licensed] * 2), task(2, licensed)], placed, policy)
    assert decisions(plan(picture, policy)) == ((), (), ())


def where(made: Plan) -> list[str]:
    return [each.node_id for each in made.starts]


def test_a_gang_that_fills_nodes_is_on_so_many_and_no_others() -> None:
    """Four on each of two: n1 and n3 have room for fewer, though for eight there would be enough."""
    nodes = [node("n1", gpus=3), node("n2", gpus=4), node("n3", gpus=2), node("n4", gpus=5)]
    eight = [asks(gpus=1)] * 8
    assert sorted(where(plan(picture_of(nodes, gang(1, eight, per_node=4, nodes=2)), PRIORITY))) == (
        ["n2"] * 4 + ["n4"] * 4
    )
    picture = picture_of(nodes[:3], gang(1, eight, per_node=4, nodes=2))
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())
    assert len(where(plan(picture_of(nodes[:3], gang(1, eight, per_node=4)), PRIORITY))) == 8


def test_all_of_it_is_on_one_node_if_it_says_so() -> None:
    nodes = [node("n1", gpus=1), node("n2", gpus=1), node("n3", gpus=2)]
    picture = picture_of(nodes, gang(1, PAIR, per_node=2, nodes=1))
    assert where(plan(picture, PRIORITY)) == ["n3", "n3"]


def test_parts_of_gpus_fill_nodes_too() -> None:
    nodes = [node(f"n{at}", gpus=1) for at in (1, 2, 3)]
    picture = picture_of(
        nodes, [task(9, asks(gpus=0.5)), *gang(1, [asks(gpus=0.5)] * 4, per_node=2, nodes=2)]
    )
    made = plan(picture, PRIORITY)
    on = [each.node_id for each in made.starts if each.task_id.job_id == 1]
    assert [on.count(name) for name in sorted(set(on))] == [2, 2]


def test_nodes_of_one_rack_are_filled() -> None:
    nodes = [node(f"n{at}", gpus=2, labels={"rack": rack}) for at, rack in enumerate("aabb", 1)]
    busy = task(9, asks(gpus=1))
    picture = picture_of(nodes, gang(1, PAIR * 2, per_node=2, nodes=2, topology="rack"), [(busy, "n1", (0,))])
    assert where(plan(picture, PRIORITY)) == ["n3", "n3", "n4", "n4"]


def test_whole_nodes_are_made_free_for_it() -> None:
    """The victims are those who leave two nodes free for four each; n2 cannot be freed."""
    low, urgent = {"priority_class": PriorityClass.BEST_EFFORT}, {"priority_class": PriorityClass.HIGH}
    busy = [
        (task(7, asks(gpus=1), **low), "n1", (0,)),
        (task(8, asks(gpus=1), **urgent), "n2", (0,)),
        (task(9, asks(gpus=1), **low), "n3", (0,)),
    ]
    nodes = [node(f"n{at}", gpus=2) for at in (1, 2, 3)]
    picture = picture_of(nodes, gang(1, PAIR * 2, per_node=2, nodes=2, **urgent), busy)
    made = plan(picture, PRIORITY)
    assert made.starts == ()
    (preempt,) = made.preempts
    assert sorted(victim.job_id for victim in preempt.victims) == [7, 9]


def test_one_that_is_replaced_goes_back_to_where_it_was_missed() -> None:
    """Three of four run on, on the two nodes that they fill; n3 would have had more room."""
    members = gang(1, PAIR * 2, per_node=2, nodes=2)
    nodes = [node("n1", gpus=3), node("n2", gpus=3), node("n3", gpus=8)]
    placed = [(members[0], "n1", (0,)), (members[1], "n1", (1,)), (members[2], "n2", (0,))]
    assert where(plan(picture_of(nodes, members[3:], placed), PRIORITY)) == ["n2"]


@pytest.mark.parametrize("seed", range(40))
def test_nodes_are_filled_whenever_there_are_enough_that_can_be(seed: int) -> None:
    dice = Random(seed)
    sizes = {f"n{at}": dice.randint(1, 8) for at in range(dice.randint(2, 6))}
    taken = {name: dice.randint(0, size) for name, size in sizes.items()}
    others = [
        (task(100 + at, asks(gpus=taken[name])), name, tuple(range(taken[name])))
        for at, name in enumerate(sizes)
        if taken[name]
    ]
    each, per_node, count = dice.choice((0.5, 1, 2)), dice.choice((2, 3)), dice.choice((1, 2, 3))
    members = gang(1, [asks(gpus=each)] * (per_node * count), per_node=per_node, nodes=count)
    made = plan(
        picture_of([node(name, gpus=size) for name, size in sizes.items()], members, others), PRIORITY
    )
    able = [name for name, size in sizes.items() if (size - taken[name]) // each >= per_node]
    found = Counter(where(made))
    if len(able) < count:
        assert not found
    else:
        assert len(found) == count
        assert set(found.values()) == {per_node}
        assert set(found) <= set(able)
