"""Held tasks, the quotas that admit them, and the burst."""

from typing import Any

from tests.core.core_story import (
    DRF,
    PRIORITY,
    asks,
    carry_out,
    decisions,
    gang,
    node,
    picture_of,
    reservation,
    start,
    task,
)
from tgpu.core.picture import Picture
from tgpu.core.plan import Admission
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.tenant import Amounts, Limits, Tenant

NOW, BURST = Admission.NOW, Admission.BURST
LOW = PriorityClass.LOW


def four_cpus(*waiting: TaskBrief, used: int = 0, policy: Policy = PRIORITY, **more: Any) -> Picture:
    """A tenant that may have four CPUs, and uses so many."""
    picture = picture_of([node(cpus=64)], waiting, policy=policy, **more)
    picture.set_tenant(Tenant("a", limits=Limits(cpu_milli=4000), used=Amounts(cpu_milli=1000 * used)))
    return picture


def held(job_id: int, cpus: int, *args: Any, tenant_id: str = "a", **more: Any) -> TaskBrief:
    return task(job_id, asks(cpus=cpus), *args, tenant_id=tenant_id, held=True, **more)


def test_a_task_that_was_charged_at_submission_is_simply_tried() -> None:
    picture = four_cpus(task(1, asks(cpus=9), tenant_id="a"), used=9)
    assert plan(picture, PRIORITY).starts == (start(1),)


def test_a_held_task_starts_once_the_quota_has_room_for_it() -> None:
    assert plan(four_cpus(held(1, 2), used=3), PRIORITY).starts == ()
    assert plan(four_cpus(held(1, 2), used=2), PRIORITY).starts == (start(1, admission=NOW),)


def test_two_admissions_in_one_plan_know_each_other() -> None:
    made = plan(four_cpus(held(1, 2), held(2, 2), held(3, 1)), PRIORITY)
    assert made.starts == (start(1, admission=NOW), start(2, admission=NOW))


def test_every_quota_from_root_to_leaf_must_have_room() -> None:
    picture = four_cpus(held(1, 2, tenant_id="a/x"), used=3)
    picture.set_tenant(Tenant("a/x", limits=Limits(cpu_milli=64_000)))
    assert plan(picture, PRIORITY).starts == ()
    picture = four_cpus(held(1, 2, tenant_id="a/x"))
    picture.set_tenant(Tenant("a/x", limits=Limits(cpu_milli=1000)))
    assert plan(picture, PRIORITY).starts == ()


def test_the_first_held_task_that_is_not_admitted_stops_those_behind_it() -> None:
    made = plan(four_cpus(held(1, 3), held(2, 3), held(3, 1), task(4, tenant_id="a")), PRIORITY)
    assert made.starts == (start(1, admission=NOW), start(4))


def test_it_stops_only_those_of_its_own_queue() -> None:
    picture = four_cpus(held(1, 5), held(2, 1, tenant_id="b"), policy=DRF)
    assert plan(picture, DRF).starts == (start(2, admission=NOW),)


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    pair = gang(1, [asks(cpus=2)] * 2, tenant_id="a", held=True)
    admitted = (start(1, admission=NOW), start(1, index=1, admission=NOW))
    assert plan(four_cpus(*pair), PRIORITY).starts == admitted
    assert plan(four_cpus(*pair, used=1), PRIORITY).starts == ()


def test_a_gang_that_is_admitted_is_known_to_the_next_who_is_held() -> None:
    pair = gang(1, [asks(cpus=2)] * 2, tenant_id="a", held=True)
    assert len(plan(four_cpus(*pair, held(2, 1)), PRIORITY).starts) == 2


def test_a_held_task_of_a_low_class_may_burst_to_half_as_much_again() -> None:
    made = plan(four_cpus(held(1, 2, LOW), held(2, 1, LOW), used=4), PRIORITY)
    assert made.starts == (start(1, admission=BURST),)


def test_other_classes_do_not_burst() -> None:
    for priority_class in PriorityClass:
        expected = (start(1, admission=BURST),) if priority_class is LOW else ()
        assert plan(four_cpus(held(1, 2, priority_class), used=4), PRIORITY).starts == expected


def test_the_burst_is_for_what_nobody_else_can_use() -> None:
    """The best-effort task, of a lower class, is served first."""
    last = task(2, asks(cpus=63), PriorityClass.BEST_EFFORT)
    made = plan(four_cpus(held(1, 2, LOW), last, used=4), PRIORITY)
    assert made.starts == (start(2),)


def test_nobody_is_stopped_and_nothing_reserved_for_the_burst() -> None:
    placed = [(task(9, asks(cpus=64), PriorityClass.BEST_EFFORT), "n1", ())]
    picture = four_cpus(held(1, 2, LOW), used=4, placed=placed)
    assert decisions(plan(picture, PRIORITY)) == ((), (), ())


def test_what_runs_on_the_burst_counts_against_it_in_the_next_plan() -> None:
    picture = four_cpus(held(1, 2, LOW), used=4)
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(held(2, 1, LOW))
    assert plan(picture, PRIORITY).starts == ()


def test_an_admission_counts_in_the_next_plan() -> None:
    picture = four_cpus(held(1, 3))
    carry_out(picture, plan(picture, PRIORITY))
    assert picture.tenants["a"].used == Amounts(cpu_milli=3000)
    picture.add_waiting(held(2, 2))
    assert plan(picture, PRIORITY).starts == ()


def test_a_held_task_does_not_keep_its_kind_from_starting_elsewhere() -> None:
    """The quota stops it, not a lack of room."""
    made = plan(four_cpus(held(1, 5), task(2, asks(cpus=5), tenant_id="b")), PRIORITY)
    assert made.starts == (start(2),)


def test_by_gpu_memory_alone_no_gpus_are_counted() -> None:
    """As at submission: how much of a device it takes is known only when it has one."""
    shared = task(1, asks(gpu_memory_mib=81920), tenant_id="a", held=True)
    picture = picture_of([node(gpus=1)], [shared])
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=0)))
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0, admission=NOW),)


def test_what_runs_on_the_burst_counts_only_against_the_limit_and_a_half() -> None:
    bursting = (task(9, asks(cpus=2), LOW, tenant_id="a", burst=True), "n1", ())
    picture = four_cpus(held(1, 3), used=1, placed=[bursting])
    assert plan(picture, PRIORITY).starts == (start(1, admission=NOW),)
    bursting = (task(9, asks(cpus=3), LOW, tenant_id="a", burst=True), "n1", ())
    picture = four_cpus(held(1, 3), used=1, placed=[bursting])
    assert plan(picture, PRIORITY).starts == ()


def test_one_who_was_held_when_it_got_its_reservation_is_admitted_when_it_starts() -> None:
    busy = (task(9, asks(cpus=64), time_limit_s=1000), "n1", ())
    picture = four_cpus(held(1, 3), used=1, placed=[busy])
    carry_out(picture, plan(picture, PRIORITY))
    assert picture.reservations == (reservation(1, 1000),)
    picture.release(busy[0].task_id)
    assert plan(picture, PRIORITY, whole=True).starts == (start(1, admission=NOW),)
    picture.set_tenant(Tenant("a", limits=Limits(cpu_milli=3000), used=Amounts(cpu_milli=1000)))
    assert decisions(plan(picture, PRIORITY, whole=True)) == ((), (), ())


def test_one_who_was_held_when_it_claimed_room_is_admitted_when_it_starts() -> None:
    busy = (task(9, asks(cpus=64), LOW), "n1", ())
    picture = four_cpus(held(1, 3), used=1, placed=[busy])
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(held(2, 1))
    picture.release(busy[0].task_id)
    assert plan(picture, PRIORITY, whole=True).starts == (start(1, admission=NOW),)
