"""Who gave way may not start for a while: until then it keeps its place before all lower classes."""

from dataclasses import replace

import pytest

from tests.core.core_story import (
    DRF,
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
from tgpu.core.express import express
from tgpu.core.plan import Reservation
from tgpu.core.planner import is_settled, plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Status
from tgpu.domain.priority import PriorityClass

HIGH, DEFAULT, LOW = PriorityClass.HIGH, PriorityClass.DEFAULT, PriorityClass.LOW
WHOLE = asks(gpus=1)


def asleep(
    job_id: int, *args: object, until_s: int = 10, request: object = WHOLE, **more: object
) -> TaskBrief:
    """Preempted just now."""
    facts = {"status": Status.PREEMPTED, "eligible_ms": at(until_s), "attempts": 1}
    return task(job_id, request, *args, **(facts | more))  # type: ignore[arg-type]


def test_a_preempted_task_does_not_wait_behind_a_lower_class_that_came_while_it_slept() -> None:
    """high stops default and ends at once: if low had the GPU now, default could not stop it later."""
    placed = [(task(8, WHOLE, DEFAULT), "n1", (0,))]
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH), task(9, WHOLE, LOW)], placed)
    carry_out(picture, plan(picture, PRIORITY, whole=True))
    picture.put_back(picture.release(TaskId(8, 0)).task)
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.placed) == [TaskId(1, 0)]
    picture.release(TaskId(1, 0))
    for whole in (False, True):
        made = plan(picture, PRIORITY, whole=whole)
        assert decisions(made) == ((), (), (reservation(8, 10, "n1", 0),)), whole
    carry_out(picture, made)
    picture.now_ms = at(10)
    made = plan(picture, PRIORITY)
    assert made.starts == (start(8, "n1", 0),)


def test_who_ends_before_the_backoff_does_may_have_the_place_until_then() -> None:
    short, long = task(8, WHOLE, LOW, time_limit_s=10), task(9, WHOLE, LOW, time_limit_s=11)
    picture = picture_of([node(gpus=1)], [asleep(1), short, long])
    made = plan(picture, PRIORITY, whole=True)
    assert made.starts == (start(8, "n1", 0),)
    assert made.reservations[0] == reservation(1, 10, "n1", 0)


def test_a_higher_class_and_who_stands_before_it_may_have_its_place() -> None:
    picture = picture_of([node(gpus=1)], [asleep(2), task(3, WHOLE, HIGH)])
    assert plan(picture, PRIORITY, whole=True).starts == (start(3, "n1", 0),)
    picture = picture_of([node(gpus=1)], [asleep(2), task(1, WHOLE)])
    assert plan(picture, PRIORITY, whole=True).starts == (start(1, "n1", 0),)
    picture = picture_of([node(gpus=1)], [asleep(2), task(3, WHOLE)])
    assert plan(picture, PRIORITY, whole=True).starts == ()


def test_tenants_take_turns_also_with_those_who_sleep() -> None:
    """Tenant a has a GPU already: what is left is b's, whoever slept."""
    placed = [(task(7, WHOLE, tenant_id="a"), "n1", (0,))]
    waiting = [asleep(1, tenant_id="a"), task(2, WHOLE, tenant_id="b")]
    picture = picture_of([node(gpus=2)], waiting, placed, DRF)
    assert plan(picture, DRF, whole=True).starts == (start(2, "n1", 1),)


def test_everybody_who_sleeps_has_a_place_and_takes_no_reservation_from_who_is_awake() -> None:
    """Two GPUs wait for two sleepers; the one reservation of the class is for the first who lacks room."""
    placed = [(task(7, asks(gpus=1, cpus=4), HIGH, time_limit_s=500), "n1", (0,))]
    waiting = [asleep(1), asleep(2), task(3, asks(gpus=1, cpus=3)), task(9, WHOLE, LOW)]
    picture = picture_of([node(gpus=3)], waiting, placed)
    kept = (reservation(1, 10, "n1", 1), reservation(2, 10, "n1", 2), reservation(3, 500, "n1", 0))
    assert decisions(plan(picture, PRIORITY, whole=True)) == ((), (), kept)


def test_who_sleeps_and_lacks_room_waits_for_it_like_everybody_else() -> None:
    placed = [(task(7, WHOLE, HIGH, time_limit_s=500), "n1", (0,))]
    picture = picture_of([node(gpus=1)], [asleep(1), asleep(2)], placed)
    assert plan(picture, PRIORITY, whole=True).reservations == (reservation(1, 500, "n1", 0),)
    carry_out(picture, plan(picture, PRIORITY, whole=True))
    assert is_settled(picture)


def test_a_gang_that_sleeps_has_its_places_together() -> None:
    facts = {"status": Status.PREEMPTED, "eligible_ms": at(10)}
    pair = [replace(each, **facts) for each in gang(1, [WHOLE] * 2)]  # type: ignore[arg-type]
    picture = picture_of([node("n1", gpus=1), node("n2", gpus=1)], [*pair, task(9, WHOLE, LOW)])
    made = plan(picture, PRIORITY, whole=True)
    both = Reservation((TaskId(1, 0), TaskId(1, 1)), at(10), (("n1", (0,)), ("n2", (0,))))
    assert decisions(made) == ((), (), (both,))
    carry_out(picture, made)
    picture.now_ms = at(10)
    assert [each.task_id for each in plan(picture, PRIORITY).starts] == [TaskId(1, 0), TaskId(1, 1)]


def test_a_licence_is_kept_with_the_place() -> None:
    policy = Policy(PoolPolicy("priority"), cluster_generic={"matlab": 1})
    licensed = asks(generic=(("matlab", 1),))
    picture = picture_of([node()], [asleep(1, request=licensed), task(9, licensed, LOW)], policy=policy)
    made = plan(picture, policy, whole=True)
    assert decisions(made) == ((), (), (reservation(1, 10),))
    carry_out(picture, made)
    assert plan(picture, policy).starts == ()
    picture.now_ms = at(10)
    assert plan(picture, policy).starts == (start(1),)


def test_who_sleeps_beyond_its_quota_does_not_start_on_the_burst() -> None:
    picture = picture_of([node(gpus=1)], [asleep(1, LOW, held=True)])
    assert plan(picture, PRIORITY, whole=True).starts == ()


@pytest.mark.parametrize("whole", [False, True])
def test_all_who_sleep_are_left_alone_even_if_they_are_all_who_wait(whole: bool) -> None:
    picture = picture_of([node(gpus=2)], policy=DRF)
    carry_out(picture, plan(picture, DRF, whole=True))
    for job_id in (1, 2):
        picture.add_waiting(asleep(job_id))
    assert express(picture, DRF) is None
    assert plan(picture, DRF, whole=whole).starts == ()


def test_who_had_its_minimum_run_time_gives_way_without_a_look_at_everybody() -> None:
    policy = Policy(PoolPolicy("priority"), min_run_s=300)
    placed = [(task(9, WHOLE, LOW), "n1", (0,))]
    picture = picture_of([node(gpus=1)], [task(1, WHOLE, HIGH)], placed, policy)
    carry_out(picture, plan(picture, policy, whole=True))
    assert picture.moments.next_ms == at(300)
    picture.now_ms = at(299)
    assert is_settled(picture)
    picture.now_ms = at(300)
    assert not is_settled(picture)
    assert plan(picture, policy).preempts == (preempt([9], claim(1, "n1", 0)),)
    assert picture.moments.next_ms is None
