"""Whose turn is it?"""

import pytest

from tests.core.core_story import (
    DRF,
    FIFO,
    NOW_MS,
    PRIORITY,
    asks,
    carry_out,
    node,
    picture_of,
    start,
    task,
)
from tests.core.drf_vectors import (
    PAPER_ALLOCATION,
    PAPER_CAPACITY,
    PAPER_ORDER,
    PAPER_TASKS,
    SORTER,
    TOTAL_CHANGES,
    WEIGHTED_SORTER,
    Step,
)
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy, UnknownPolicyError, named
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Tenant

HOUR_MS = 3_600_000
FAIR_TREE = named("fair-tree")


def order(picture: Picture, policy: Policy) -> list[int]:
    """Jobs in the order in which a plan starts them."""
    return [each.task_id.job_id for each in plan(picture, policy).starts]


def test_classes_are_served_strictly_one_after_the_other() -> None:
    waiting = [
        task(1, priority_class=PriorityClass.BEST_EFFORT, priority=100),
        task(2, priority_class=PriorityClass.LOW),
        task(3, priority_class=PriorityClass.DEFAULT),
        task(4, priority_class=PriorityClass.HIGH, priority=-5),
        task(5, priority_class=PriorityClass.REAL_TIME, priority=-9),
    ]
    for policy in (DRF, PRIORITY, FIFO, FAIR_TREE):
        assert order(picture_of([node()], waiting, policy=policy), policy) == [5, 4, 3, 2, 1]


def test_inside_a_class_priority_comes_before_time_and_time_before_the_number() -> None:
    waiting = [
        task(1, submitted_ms=NOW_MS - 5),
        task(2, submitted_ms=NOW_MS - 9),
        task(3, submitted_ms=NOW_MS - 5, priority=1),
        task(4, submitted_ms=NOW_MS - 5),
    ]
    assert order(picture_of([node()], waiting), PRIORITY) == [3, 2, 1, 4]


def test_fifo_goes_by_time_alone() -> None:
    waiting = [task(1, submitted_ms=NOW_MS - 1, priority=9), task(2, submitted_ms=NOW_MS - 2)]
    assert order(picture_of([node()], waiting, policy=FIFO), FIFO) == [2, 1]


def test_the_example_of_the_paper_is_served_step_by_step_as_in_its_table() -> None:
    names = {"B": "first", "A": "second"}  # of equals the smaller name is served first
    cpus, memory = PAPER_CAPACITY
    waiting = []
    for number, (user, (task_cpus, task_memory)) in enumerate(PAPER_TASKS.items()):
        request = asks(cpus=task_cpus, memory_mib=1024 * task_memory)
        waiting += [task(10 * number + i, request, tenant_id=names[user]) for i in range(1, 8)]
    picture = picture_of([node(cpus=cpus, memory_mib=1024 * memory)], waiting, policy=DRF)
    made = plan(picture, DRF)
    whose = [picture.waiting[each.task_id].tenant_id for each in made.starts]
    assert whose == [names[user] for user in PAPER_ORDER]
    carry_out(picture, made)
    for user, (has_cpus, has_memory) in PAPER_ALLOCATION.items():
        requests = [p.task.request for p in picture.placed.values() if p.task.tenant_id == names[user]]
        assert sum(request.cpu_milli for request in requests) == 1000 * has_cpus
        assert sum(request.memory_mib for request in requests) == 1024 * has_memory


@pytest.mark.parametrize("step", [*SORTER, *WEIGHTED_SORTER, *TOTAL_CHANGES])
def test_tenants_stand_in_the_order_that_the_sorter_of_mesos_finds(step: Step) -> None:
    (cpus, memory), has, weights, expected = step
    placed = [
        (task(100 + at, asks(cpus=c, memory_mib=m), tenant_id=name), "n1", ())
        for at, (name, (c, m)) in enumerate(has.items())
    ]
    picture = picture_of([node(cpus=cpus, memory_mib=memory)], placed=placed, policy=DRF)
    for name in has:
        picture.set_tenant(Tenant(name, weight=round(10 * weights.get(name, 1))))
    for at, name in enumerate(has):
        picture.add_waiting(task(1 + at, asks(cpus=0.001), tenant_id=name))
    made = plan(picture, DRF)
    assert [picture.waiting[each.task_id].tenant_id for each in made.starts] == list(expected)


def test_the_share_of_a_team_is_what_all_its_members_use() -> None:
    placed = [(task(9, asks(cpus=4), tenant_id="a/x"), "n1", ())]
    waiting = [task(1, tenant_id="a/y"), task(2, tenant_id="b")]
    picture = picture_of([node()], waiting, placed, DRF)
    assert order(picture, DRF) == [2, 1]


def test_own_tasks_of_a_team_stand_beside_its_members_with_weight_one() -> None:
    waiting = [
        *(task(number, tenant_id="a") for number in (1, 2, 3)),
        *(task(number, tenant_id="a/x") for number in (4, 5, 6)),
    ]
    picture = picture_of([node()], waiting, policy=DRF)
    picture.set_tenant(Tenant("a/x", weight=2))
    assert order(picture, DRF) == [1, 4, 5, 2, 6, 3]


def test_who_cannot_use_its_part_holds_nobody_back() -> None:
    stuck = [task(number, asks(gpus=1, gpu_type="h100"), tenant_id="a/x") for number in (1, 2)]
    others = [task(number, tenant_id="b") for number in (3, 4)]
    assert order(picture_of([node(cpus=2, gpus=1)], [*stuck, *others], policy=DRF), DRF) == [3, 4]


def test_a_weight_counts_from_the_next_plan_on() -> None:
    waiting = [
        *(task(number, tenant_id="a") for number in (1, 2, 3, 4)),
        *(task(number, tenant_id="b") for number in (5, 6, 7, 8)),
    ]
    picture = picture_of([node(cpus=4)], waiting, policy=DRF)
    assert order(picture, DRF) == [1, 5, 2, 6]
    picture.set_tenant(Tenant("b", weight=3))
    assert order(picture, DRF) == [1, 5, 6, 7]


def test_weights_from_one_to_a_thousand_million_are_exact_enough() -> None:
    waiting = [
        task(1, tenant_id="a"),
        task(2, tenant_id="a"),
        *(task(number, tenant_id="b") for number in (3, 4, 5, 6)),
    ]
    picture = picture_of([node()], waiting, policy=DRF)
    picture.set_tenant(Tenant("b", weight=10**9))
    assert order(picture, DRF) == [1, 3, 4, 5, 6, 2]


def test_gpus_are_part_of_the_share() -> None:
    placed = [(task(9, asks(gpus=1, cpus=0), tenant_id="a"), "n1", (0,))]
    waiting = [task(1, tenant_id="a"), task(2, tenant_id="b"), task(3, tenant_id="b")]
    picture = picture_of([node(cpus=8, gpus=2)], waiting, placed, DRF)
    assert order(picture, DRF) == [2, 3, 1]


def test_waiting_raises_the_priority_by_one_an_hour() -> None:
    old = task(1, submitted_ms=NOW_MS - 2 * HOUR_MS)
    new = task(2, submitted_ms=NOW_MS, priority=1)
    newer = task(3, submitted_ms=NOW_MS, priority=2)
    waiting = [new, newer, old]
    assert order(picture_of([node()], waiting), PRIORITY) == [1, 3, 2]


def test_waiting_raises_the_priority_by_no_more_than_a_day() -> None:
    old = task(1, submitted_ms=NOW_MS - 100 * HOUR_MS)
    new = task(2, submitted_ms=NOW_MS, priority=25)
    assert order(picture_of([node()], [old, new]), PRIORITY) == [2, 1]


def test_waiting_never_lifts_anybody_into_another_class() -> None:
    old = task(1, None, PriorityClass.LOW, submitted_ms=NOW_MS - 100 * HOUR_MS)
    new = task(2, submitted_ms=NOW_MS)
    assert order(picture_of([node()], [old, new]), PRIORITY) == [2, 1]


def used_by(tenant_id: str, hours: int) -> Picture:
    """A node of which this tenant had all, so long, and which is now free."""
    picture = picture_of([node(cpus=4)], policy=FAIR_TREE)
    heavy = task(99, asks(cpus=4), tenant_id=tenant_id)
    picture.place(heavy, heavy.task_id.attempt(1), "n1", ())
    picture.now_ms = NOW_MS + hours * HOUR_MS
    picture.release(TaskId(99, 0))
    return picture


def two_each(picture: Picture) -> list[TaskBrief]:
    found = [task(1, tenant_id="a"), task(2, tenant_id="a"), task(3, tenant_id="b"), task(4, tenant_id="b")]
    for each in found:
        picture.add_waiting(each)
    return found


def test_fair_tree_serves_who_used_less_in_the_past_and_does_not_move_while_it_plans() -> None:
    picture = used_by("a", 24)
    two_each(picture)
    assert order(picture, FAIR_TREE) == [3, 4, 1, 2]


def test_fair_tree_divides_past_use_by_weight() -> None:
    picture = used_by("a", 24)
    light = task(98, asks(cpus=4), tenant_id="b")
    picture.place(light, light.task_id.attempt(1), "n1", ())
    picture.now_ms += 12 * HOUR_MS
    picture.release(TaskId(98, 0))
    two_each(picture)
    assert order(picture, FAIR_TREE) == [3, 4, 1, 2]
    picture.set_tenant(Tenant("a", weight=3))
    assert order(picture, FAIR_TREE) == [1, 2, 3, 4]


def test_fair_tree_forgets_half_of_the_past_in_a_half_life() -> None:
    """24 hours that are a half-life old weigh less than 13 that are over now."""
    picture = used_by("a", 24)
    picture.now_ms += 7 * 24 * HOUR_MS
    recent = task(98, asks(cpus=4), tenant_id="b")
    picture.place(recent, recent.task_id.attempt(1), "n1", ())
    picture.now_ms += 13 * HOUR_MS
    picture.release(TaskId(98, 0))
    two_each(picture)
    assert order(picture, FAIR_TREE) == [1, 2, 3, 4]


def test_pools_with_other_orders_are_served_one_order_after_the_other() -> None:
    policy = Policy(PoolPolicy("fifo"), {"fair": PoolPolicy("drf"), "ranked": PoolPolicy("priority")})
    waiting = [task(1), task(2, asks(pool="ranked")), task(3, asks(pool="fair"))]
    nodes = [node("n1"), node("n2", pool="fair"), node("n3", pool="ranked")]
    assert order(picture_of(nodes, waiting, policy=policy), policy) == [3, 2, 1]


def test_an_order_from_outside_is_served_last_and_by_its_own_key() -> None:
    policy = Policy(
        PoolPolicy("smallest"),
        {"fair": PoolPolicy("drf")},
        outside_orders={"smallest": lambda each, _now: (each.request.cpu_milli,)},
    )
    waiting = [task(1, asks(cpus=3)), task(2, asks(cpus=1)), task(3, asks(pool="fair"))]
    picture = picture_of([node(pool="fair")], waiting, policy=policy)
    assert order(picture, policy) == [3, 2, 1]


def test_nobody_is_served_before_the_backoff_is_over() -> None:
    picture = picture_of([node()], [task(1, eligible_ms=NOW_MS + 10_000)])
    assert order(picture, PRIORITY) == []
    picture.now_ms = NOW_MS + 10_000
    assert order(picture, PRIORITY) == [1]


def test_a_position_counts_everybody_in_the_queue_who_is_served_before() -> None:
    waiting = [task(1, asks(gpus=1)), task(2, asks(cpus=2)), task(3, asks(gpus=1)), task(4, priority=1)]
    picture = picture_of([], waiting)
    assert [picture.position(TaskId(job_id, 0)) for job_id in (1, 2, 3, 4)] == [2, 3, 4, 1]
    assert [task_id.job_id for task_id in picture.in_order()] == [4, 1, 2, 3]


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(UnknownPolicyError, match="there is no policy 'sjf'; take one of drf, fair-tree, pri"):
        named("sjf")
    with pytest.raises(UnknownPolicyError, match="there is no scorer 'best'; take one of tightest, spread"):
        named("fifo", "best")


def test_planning_changes_nothing_in_the_picture() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=1))])
    before = picture.version
    assert plan(picture, PRIORITY) == plan(picture, PRIORITY)
    assert (picture.version, list(picture.waiting), picture.placed) == (before, [TaskId(1, 0)], {})
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0),)
