"""Held tasks, the quotas that admit them, and the burst."""

from typing import Any

import pytest

from tests.core.core_story import (
    DRF,
    PRIORITY,
    asks,
    carry_out,
    decisions,
    device,
    gang,
    node,
    picture_of,
    reservation,
    start,
    task,
)
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Admission, JobLimits, JobUse, Limits
from tgpu.domain.tenant import Tenant

NOW, BURST = Admission.NOW, Admission.BURST
LOW = PriorityClass.LOW
LOW_REQUEST = asks(cpus=0.5)


def four_cpus(*waiting: TaskBrief, used: int = 0, policy: Policy = PRIORITY, **more: Any) -> Picture:
    """A tenant that may have four CPUs, and is charged for so many already."""
    picture = picture_of(
        [node(cpus=64)], [*waiting, charged(99, used)] if used else waiting, policy=policy, **more
    )
    picture.set_tenant(Tenant("a", limits=Limits(cpu_milli=4000)))
    return picture


def charged(job_id: int, cpus: int) -> TaskBrief:
    """It waits for a node that is not there, and is in nobody's way."""
    return task(job_id, asks(cpus=cpus, node_id="n9"), PriorityClass.BEST_EFFORT, tenant_id="a")


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


def test_nobody_behind_gets_what_a_refused_task_waits_for() -> None:
    made = plan(four_cpus(held(1, 3), held(2, 3), held(3, 1), task(4, tenant_id="a")), PRIORITY)
    assert made.starts == (start(1, admission=NOW), start(4))


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    pair = gang(1, [asks(cpus=2)] * 2, tenant_id="a", held=True)
    admitted = (start(1, admission=NOW), start(1, index=1, admission=NOW))
    assert plan(four_cpus(*pair), PRIORITY).starts == admitted
    assert plan(four_cpus(*pair, used=1), PRIORITY).starts == ()


def test_a_gang_that_is_admitted_is_known_to_the_next_who_is_held() -> None:
    pair = gang(1, [asks(cpus=2)] * 2, tenant_id="a", held=True)
    assert len(plan(four_cpus(*pair, held(2, 1)), PRIORITY).starts) == 2


def test_held_tasks_of_a_low_class_may_burst_to_half_of_the_limit() -> None:
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
    picture.add_waiting(held(2, 2))
    assert plan(picture, PRIORITY).starts == ()


def test_a_held_task_does_not_keep_its_kind_from_starting_elsewhere() -> None:
    """The quota stops it, not a lack of room."""
    made = plan(four_cpus(held(1, 5), task(2, asks(cpus=5), tenant_id="b")), PRIORITY)
    assert made.starts == (start(2),)


def test_by_gpu_memory_alone_a_whole_gpu_is_counted() -> None:
    """As at submission: how much of a device it takes is known only when it has one."""
    shared = task(1, asks(gpu_memory_mib=1024), tenant_id="a", held=True)
    picture = picture_of([node(gpus=1)], [shared])
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=999)))
    assert plan(picture, PRIORITY).starts == ()
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=1000)))
    assert plan(picture, PRIORITY).starts == (start(1, "n1", 0, admission=NOW),)


def test_what_runs_on_the_burst_keeps_nobody_from_being_admitted() -> None:
    """Even more of it than a new one would be let onto: its tenant's limit was lowered."""
    for cpus in (2, 3):
        bursting = (task(9, asks(cpus=cpus), LOW, tenant_id="a", burst=True), "n1", ())
        picture = four_cpus(held(1, 3), used=1, placed=[bursting])
        assert plan(picture, PRIORITY).starts == (start(1, admission=NOW),)


def test_what_is_admitted_takes_nothing_of_the_burst() -> None:
    bursting = (task(9, asks(cpus=1), LOW, tenant_id="a", burst=True), "n1", ())
    picture = four_cpus(held(1, 1, LOW), held(2, 1, LOW), used=8, placed=[bursting])
    assert plan(picture, PRIORITY).starts == (start(1, admission=BURST),)


def test_one_who_was_held_when_it_got_its_reservation_is_admitted_when_it_starts() -> None:
    busy = (task(9, asks(cpus=64), time_limit_s=1000), "n1", ())
    picture = four_cpus(held(1, 3), used=1, placed=[busy])
    carry_out(picture, plan(picture, PRIORITY))
    assert picture.reservations == (reservation(1, 1000),)
    picture.release(busy[0].task_id)
    assert plan(picture, PRIORITY, whole=True).starts == (start(1, admission=NOW),)
    picture.set_tenant(Tenant("a", limits=Limits(cpu_milli=3000)))
    assert decisions(plan(picture, PRIORITY, whole=True)) == ((), (), ())


def test_one_who_was_held_when_it_claimed_room_is_admitted_when_it_starts() -> None:
    busy = (task(9, asks(cpus=64), LOW), "n1", ())
    picture = four_cpus(held(1, 3), used=1, placed=[busy])
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(held(2, 1))
    picture.release(busy[0].task_id)
    assert plan(picture, PRIORITY, whole=True).starts == (start(1, admission=NOW),)


# What is charged follows from who lives


def test_one_who_was_admitted_stays_charged_when_it_is_put_back() -> None:
    picture = four_cpus(held(1, 3))
    carry_out(picture, plan(picture, PRIORITY))
    picture.put_back(picture.release(TaskId(1, 0)).task)
    assert not picture.waiting[TaskId(1, 0)].held
    picture.add_waiting(held(2, 2))
    assert plan(picture, PRIORITY).starts == ()
    picture.remove_waiting(TaskId(1, 0))
    assert plan(picture, PRIORITY).starts == (start(2, admission=NOW),)


def test_one_who_was_on_the_burst_is_held_again_when_it_is_put_back() -> None:
    picture = four_cpus(held(1, 2, LOW), used=4)
    carry_out(picture, plan(picture, PRIORITY))
    running = picture.placed[TaskId(1, 0)].task
    assert (running.held, running.burst) == (True, True)
    picture.put_back(picture.release(TaskId(1, 0)).task)
    again = picture.waiting[TaskId(1, 0)]
    assert (again.held, again.burst) == (True, False)
    picture.add_waiting(held(2, 2, LOW))
    assert plan(picture, PRIORITY).starts == (start(2, admission=BURST),)


def test_a_reservation_takes_its_part_of_the_quota_so_that_nobody_behind_it_is_in_its_way() -> None:
    busy = (task(9, asks(cpus=62), time_limit_s=1000), "n1", ())
    picture = four_cpus(held(1, 3), held(2, 2, time_limit_s=10), held(3, 1, time_limit_s=10), placed=[busy])
    made = plan(picture, PRIORITY)
    assert decisions(made) == ((), (), (reservation(1, 1000),))
    picture = four_cpus(held(1, 3), held(3, 1, time_limit_s=10), placed=[busy])
    assert decisions(plan(picture, PRIORITY)) == ((start(3, admission=NOW),), (), (reservation(1, 1000),))


def test_what_is_charged_outlives_that_something_new_is_counted() -> None:
    """A resource that nobody had asked for yet: the arrays are laid out anew."""
    picture = four_cpus(held(1, 3))
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(task(2, asks(generic=(("fpga", 1),)), tenant_id="a"))
    picture.add_waiting(held(3, 1))
    assert plan(picture, PRIORITY).starts == ()


# Limits by name


def test_gpus_of_a_model_are_counted_for_who_asks_for_them_by_name() -> None:
    waiting = [
        task(1, asks(1, gpu_type="A100"), tenant_id="a", held=True),
        task(2, asks(1, gpu_types_barred=("a100",)), tenant_id="a", held=True),
        task(3, asks(1, gpu_type="NVIDIA a100-sxm"), tenant_id="a", held=True),
    ]
    there = [node("n1", gpus=2), node("n2", gpus=[device(0, "Tesla T4")])]
    picture = picture_of(there, waiting)
    picture.set_tenant(Tenant("a", limits=Limits(named=(("gpu:a100", 1000),))))
    made = plan(picture, PRIORITY)
    assert made.starts == (start(1, "n1", 0, admission=NOW), start(2, "n2", 0, admission=NOW))


def test_who_is_barred_from_a_model_waits_rather_than_having_it() -> None:
    barred = task(1, asks(1, gpu_types_barred=("a100",)), tenant_id="a")
    assert plan(picture_of([node(gpus=2)], [barred]), PRIORITY).starts == ()


def test_a_named_resource_has_a_limit_of_its_own() -> None:
    def asking(job_id: int, amount: int) -> TaskBrief:
        return task(job_id, asks(generic=(("fpga", amount),)), tenant_id="a", held=True)

    picture = picture_of([node(generic={"fpga": 8})], [asking(1, 2), asking(2, 1), asking(3, 1)])
    picture.set_tenant(Tenant("a", limits=Limits(named=(("generic:fpga", 3),))))
    assert [each.task_id.job_id for each in plan(picture, PRIORITY).starts] == [1, 2]


# What counts when tasks begin


def limited(*waiting: TaskBrief, policy: Policy = PRIORITY, **limits: Any) -> Picture:
    picture = picture_of([node(cpus=64, gpus=8)], waiting, policy=policy)
    picture.set_tenant(Tenant("a", job_limits=JobLimits(**limits)))
    return picture


def of_a(job_id: int, *args: Any, **more: Any) -> TaskBrief:
    return task(job_id, *args, **{"tenant_id": "a"} | more)


@pytest.mark.parametrize("policy", [PRIORITY, DRF])
def test_a_tenant_runs_only_so_many_tasks_whether_they_were_held_or_not(policy: Policy) -> None:
    tasks = [of_a(1), of_a(2, held=True), of_a(3), of_a(4, tenant_id="a/x"), of_a(5, tenant_id="b")]
    picture = limited(*tasks, running=2, policy=policy)
    carry_out(picture, plan(picture, policy))
    assert len([t for t in picture.placed.values() if t.task.tenant_id != "b"]) == 2
    assert TaskId(5, 0) in picture.placed
    assert plan(picture, policy, whole=True).starts == ()
    picture.release(next(task_id for task_id in picture.placed if task_id.job_id < 5))
    assert len(plan(picture, policy).starts) == 1


def test_a_gang_too_large_for_the_limit_stops_its_tenants_tasks_behind_it_in_lower_classes_too() -> None:
    pair = gang(1, [asks()] * 2, tenant_id="a")
    picture = limited(of_a(9, priority=1), *pair, of_a(2), of_a(3, LOW_REQUEST, LOW), running=2)
    assert plan(picture, PRIORITY).starts == (start(9),)


def test_gpu_hours_are_reserved_as_long_as_a_task_may_run_with_its_grace() -> None:
    hour = {"time_limit_s": 3600 - 60}  # and a minute of grace
    picture = limited(of_a(1, asks(1), **hour), of_a(2, asks(1), **hour), gpu_ms=1000 * 3600 * 3 // 2)
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.placed) == [TaskId(1, 0)]
    assert picture.hours.used == {"a": 1000 * 3600}


def test_who_takes_fewer_gpu_hours_and_who_takes_none_may_pass() -> None:
    tasks = [of_a(1, asks(2), time_limit_s=3600), of_a(2, asks(1), time_limit_s=600), of_a(3, asks())]
    assert plan(limited(*tasks, gpu_ms=1000 * 3600), PRIORITY).starts == (start(2, "n1", 0), start(3))


def test_gpu_hours_that_were_not_used_come_back_when_a_task_leaves() -> None:
    picture = limited(of_a(1, asks(1), time_limit_s=3540), gpu_ms=1000 * 3600)
    carry_out(picture, plan(picture, PRIORITY))
    picture.started(picture.placed[TaskId(1, 0)], picture.now_ms)
    picture.now_ms += 600_000
    picture.release(TaskId(1, 0))
    assert picture.hours.used == {"a": 1000 * 600}


def test_of_a_task_that_began_in_the_last_period_only_this_one_counts() -> None:
    picture = limited(of_a(1, asks(1), time_limit_s=3540), gpu_ms=1000 * 7200)
    carry_out(picture, plan(picture, PRIORITY))
    picture.started(picture.placed[TaskId(1, 0)], picture.now_ms)
    rolled = JobUse(gpu_ms=1000 * 3600, period_from_ms=picture.now_ms + 500_000)
    picture.set_tenant(Tenant("a", job_limits=JobLimits(gpu_ms=1000 * 7200), job_use=rolled))
    picture.now_ms += 600_000
    picture.release(TaskId(1, 0))
    assert picture.hours.used == {"a": 1000 * 100}


def test_what_is_claimed_counts_as_running() -> None:
    busy = (task(8, asks(cpus=64), LOW), "n1", ())
    picture = picture_of([node(cpus=64), node("n2")], [of_a(1, asks(cpus=60), PriorityClass.HIGH)], [busy])
    picture.set_tenant(Tenant("a", job_limits=JobLimits(running=1)))
    carry_out(picture, plan(picture, PRIORITY))
    assert list(picture.claims) == [TaskId(1, 0)]
    picture.add_waiting(of_a(2))
    assert plan(picture, PRIORITY, whole=True).starts == ()
    picture.release(TaskId(8, 0))
    assert plan(picture, PRIORITY, whole=True).starts == (start(1),)


def test_a_limit_that_is_raised_counts_from_the_next_plan_on() -> None:
    picture = limited(of_a(1), of_a(2), running=1)
    carry_out(picture, plan(picture, PRIORITY))
    assert plan(picture, PRIORITY).starts == ()
    picture.set_tenant(Tenant("a", job_limits=JobLimits(running=2)))
    assert plan(picture, PRIORITY).starts == (start(2),)
