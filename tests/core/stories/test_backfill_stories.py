"""Who is next, and who may pass without delaying it?"""

from tests.core.core_story import (
    DRF,
    PRIORITY,
    asks,
    at,
    carry_out,
    decisions,
    node,
    picture_of,
    reservation,
    start,
    task,
)
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass

BUSY = (task(9, asks(gpus=1), time_limit_s=1000), "n1", (0,))
"""Half of the node's GPUs for 1000 seconds."""
HEAD = task(1, asks(gpus=2), time_limit_s=5000)


def beside(*others: TaskBrief, policy: Policy = PRIORITY) -> Picture:
    """A head that needs both GPUs, and others behind it."""
    return picture_of([node(gpus=2)], [HEAD, *others], [BUSY], policy)


def test_the_first_who_cannot_start_is_told_when_and_where_it_will() -> None:
    assert decisions(plan(beside(), PRIORITY)) == ((), (), (reservation(1, 1000, "n1", 0, 1),))


def test_a_short_task_passes_and_a_long_one_does_not() -> None:
    short, long = task(2, asks(gpus=1), time_limit_s=1000), task(3, asks(gpus=1), time_limit_s=1001)
    kept = (reservation(1, 1000, "n1", 0, 1),)
    assert decisions(plan(beside(short), PRIORITY)) == ((start(2, "n1", 1),), (), kept)
    assert decisions(plan(beside(long), PRIORITY)) == ((), (), kept)


def test_a_long_task_passes_if_it_takes_nothing_that_the_head_needs() -> None:
    """8 CPUs, of which the head needs 1 beside it."""
    fits, not_both = task(2, asks(cpus=4), time_limit_s=9999), task(3, asks(cpus=4), time_limit_s=9999)
    made = plan(beside(fits, not_both), PRIORITY)
    assert decisions(made) == ((start(2),), (), (reservation(1, 1000, "n1", 0, 1),))


def test_devices_are_part_of_what_is_kept_clear() -> None:
    """The head needs one of the two GPUs and CPUs that are not free: a long task gets the other GPU only."""
    busy = (task(9, asks(cpus=8), time_limit_s=1000), "n1", ())
    head = task(1, asks(gpus=1, cpus=2))
    first, second = (task(number, asks(gpus=1, cpus=0), time_limit_s=9999) for number in (2, 3))
    made = plan(picture_of([node(gpus=2)], [head, first, second], [busy]), PRIORITY)
    assert decisions(made) == ((start(2, "n1", 1),), (), (reservation(1, 1000, "n1", 0),))


def test_a_task_without_a_limit_is_taken_to_run_for_a_day() -> None:
    busy = (task(9, asks(gpus=1)), "n1", (0,))
    endless, day = task(2, asks(gpus=1)), task(3, asks(gpus=1), time_limit_s=24 * 3600)
    for passer in (endless, day):
        made = plan(picture_of([node(gpus=2)], [HEAD, passer], [busy]), PRIORITY)
        assert decisions(made) == (
            (start(passer.task_id.job_id, "n1", 1),),
            (),
            (reservation(1, 86400, "n1", 0, 1),),
        )
    assert plan(beside(endless), PRIORITY).starts == ()


def test_a_pool_may_say_how_long_tasks_without_a_limit_run() -> None:
    policy = Policy(PoolPolicy("priority", default_limit_s=600))
    assert plan(beside(task(2, asks(gpus=1)), policy=policy), policy).starts == (start(2, "n1", 1),)


def test_who_has_outrun_its_limit_is_taken_to_run_as_long_again() -> None:
    picture = beside()
    for now_s, end_s in ((999, 1000), (1000, 2000), (1999, 2000), (2000, 4000), (5000, 8000)):
        picture.now_ms = at(now_s)
        assert plan(picture, PRIORITY).reservations == (reservation(1, end_s, "n1", 0, 1),)


def test_the_holder_keeps_its_place_before_those_whom_fairness_would_prefer() -> None:
    picture = beside(policy=DRF)
    carry_out(picture, plan(picture, DRF))
    picture.add_waiting(task(2, asks(gpus=2, cpus=2), tenant_id="another", priority=9, time_limit_s=5000))
    picture.release(TaskId(9, 0))
    assert plan(picture, DRF).starts == (start(1, "n1", 0, 1),)


def test_a_reservation_moves_forward_when_others_end_early() -> None:
    more = (task(8, asks(gpus=1), time_limit_s=500), "n1", (1,))
    picture = picture_of([node(gpus=2)], [HEAD], [BUSY, more])
    carry_out(picture, plan(picture, PRIORITY))
    assert picture.reservations == (reservation(1, 1000, "n1", 0, 1),)
    picture.release(TaskId(9, 0))
    assert plan(picture, PRIORITY, whole=True).reservations == (reservation(1, 500, "n1", 0, 1),)


def test_a_reservation_is_where_the_head_can_start_first() -> None:
    busy = [BUSY, (task(8, asks(gpus=1), time_limit_s=500), "n2", (1,))]
    made = plan(picture_of([node("n1", gpus=2), node("n2", gpus=2)], [HEAD], busy), PRIORITY)
    assert made.reservations == (reservation(1, 500, "n2", 0, 1),)


def test_of_equal_moments_the_smaller_name_counts_and_other_nodes_are_free() -> None:
    busy = [(task(8, asks(gpus=1), time_limit_s=1000), "n2", (0,)), BUSY]
    long = task(2, asks(gpus=1), time_limit_s=9999)
    made = plan(picture_of([node("n2", gpus=2), node("n1", gpus=2)], [HEAD, long], busy), PRIORITY)
    assert decisions(made) == ((start(2, "n2", 1),), (), (reservation(1, 1000, "n1", 0, 1),))


def test_one_who_fits_on_no_node_keeps_no_room() -> None:
    made = plan(picture_of([node(gpus=1)], [task(1, asks(gpus=8)), task(2, asks(gpus=1))]), PRIORITY)
    assert decisions(made) == ((start(2, "n1", 0),), (), ())


def test_the_first_of_each_class_and_pool_has_a_reservation_and_no_more() -> None:
    policy = Policy(PoolPolicy("priority"), preemption=False)
    nodes = [node("n1", gpus=2), node("n2", gpus=2), node("n3", gpus=2, pool="big")]
    busy = [(task(90 + at, asks(gpus=1), time_limit_s=1000), f"n{at}", (0,)) for at in (1, 2, 3)]
    waiting = [
        task(1, asks(gpus=2, node_id="n1")),
        task(2, asks(gpus=2, node_id="n2")),
        task(3, asks(gpus=2, cpus=2, node_id="n2"), PriorityClass.LOW),
        task(4, asks(gpus=2, pool="big")),
    ]
    assert plan(picture_of(nodes, waiting, busy, policy), policy).reservations == (
        reservation(1, 1000, "n1", 0, 1),
        reservation(4, 1000, "n3", 0, 1),
        reservation(3, 1000, "n2", 0, 1),
    )


def test_as_many_have_reservations_as_the_pool_says() -> None:
    busy = [(task(90 + at, asks(gpus=1), time_limit_s=100 * at), "n1", (at - 1,)) for at in (1, 2, 3)]
    waiting = [task(number, asks(gpus=1, cpus=number), time_limit_s=50) for number in (1, 2, 3)]
    expected = [reservation(1, 100, "n1", 0), reservation(2, 200, "n1", 1), reservation(3, 300, "n1", 2)]
    for most in (0, 1, 2, 3):
        policy = Policy(PoolPolicy("priority", reserve=most))
        picture = picture_of([node(gpus=3, cpus=12)], waiting, busy, policy)
        assert decisions(plan(picture, policy)) == ((), (), tuple(expected[:most]))


def test_who_waits_lets_those_wait_who_ask_for_the_same_as_long() -> None:
    policy = Policy(PoolPolicy("priority", reserve=0))
    busy = (task(9, asks(gpus=1), time_limit_s=1000), "n1", (0,))
    waiting = [task(1, asks(gpus=2)), task(2, asks(gpus=2), PriorityClass.LOW), task(3, asks(gpus=1))]
    assert decisions(plan(picture_of([node(gpus=2)], waiting, [busy], policy), policy)) == (
        (start(3, "n1", 1),),
        (),
        (),
    )


def test_several_who_pass_share_the_extra() -> None:
    """The head needs 6 of 8 CPUs at its moment; 2 are extra, for all who stay together."""
    busy = (task(9, asks(cpus=4), time_limit_s=1000), "n1", ())
    head = task(1, asks(cpus=6))
    passers = [task(number, asks(cpus=1), time_limit_s=9999) for number in (2, 3, 4)]
    made = plan(picture_of([node()], [head, *passers], [busy]), PRIORITY)
    assert decisions(made) == ((start(2), start(3)), (), (reservation(1, 1000),))


def test_one_who_wants_the_node_alone_lets_only_short_ones_pass() -> None:
    head = task(1, asks(exclusive=True))
    short, long = task(2, time_limit_s=1000), task(3, asks(cpus=2), time_limit_s=1001)
    made = plan(picture_of([node(gpus=2)], [head, long, short], [BUSY]), PRIORITY)
    assert decisions(made) == ((start(2),), (), (reservation(1, 1000),))


def test_who_joins_the_queue_with_a_higher_priority_takes_over_the_reservation() -> None:
    picture = picture_of([node(gpus=2)], [task(2, asks(2))], [(task(1, asks(2)), "n1", (0, 1))])
    carry_out(picture, plan(picture, PRIORITY))
    assert [each.task_ids for each in picture.reservations] == [(TaskId(2, 0),)]
    picture.add_waiting(task(3, asks(2), priority=5))
    carry_out(picture, plan(picture, PRIORITY))
    assert [each.task_ids for each in picture.reservations] == [(TaskId(3, 0),)]


def test_a_plan_that_ends_early_leaves_the_second_reservation_to_who_is_second_in_line() -> None:
    """Also if that one asks for the same as the first: it has not been asked yet."""
    policy = Policy(PoolPolicy("priority", reserve=2))
    waiting = [HEAD, task(2, asks(cpus=1), time_limit_s=10), task(3, HEAD.request), task(4, asks(2, cpus=2))]
    also_busy = (task(8, asks(gpus=1), time_limit_s=2000), "n2", (0,))
    picture = picture_of([node(gpus=2), node("n2", gpus=2)], waiting, [BUSY, also_busy], policy)
    made = plan(picture, policy, most_starts=1)
    assert made.more
    carry_out(picture, made)
    carry_out(picture, plan(picture, policy, most_starts=1))
    assert [each.task_ids[0].job_id for each in picture.reservations] == [1, 3]
