"""Held tasks that their quota refuses: what is kept for them, and who may pass."""

from typing import Any

import pytest

from tests.core.core_story import DRF, PRIORITY, asks, carry_out, gang, node, picture_of, task
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, JobUse, Limits
from tgpu.domain.tenant import Tenant


def of_quota(*waiting: TaskBrief, policy: Policy = PRIORITY, **limits: Any) -> Picture:
    """Tenant `a` may have two GPUs, and so much of other things; room on machines there is for all."""
    picture = picture_of([node(cpus=64, gpus=8)], waiting, policy=policy)
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=2000, **limits)))
    return picture


def wants(job_id: int, gpus: int, cpus: int = 1, *args: Any, **more: Any) -> TaskBrief:
    return task(job_id, asks(gpus, cpus=cpus), *args, **{"tenant_id": "a", "held": True} | more)


def begun(picture: Picture, policy: Policy = PRIORITY) -> list[int]:
    return [each.task_id.job_id for each in plan(picture, policy, whole=True).starts]


def test_who_asks_for_nothing_of_what_is_short_passes() -> None:
    assert begun(of_quota(wants(1, 1), wants(2, 2), wants(3, 1), wants(4, 0))) == [1, 4]


def test_who_passes_leaves_all_that_the_refused_task_asks_for() -> None:
    waiting = [wants(1, 1), wants(2, 2, cpus=4)]
    assert begun(of_quota(*waiting, wants(3, 0, cpus=4), cpu_milli=9000)) == [1, 3]
    assert begun(of_quota(*waiting, wants(3, 0, cpus=5), cpu_milli=9000)) == [1]


def test_of_several_who_are_refused_the_largest_part_is_kept_and_not_the_sum() -> None:
    many = [wants(number, 2, cpus=4) for number in range(2, 100)]
    assert begun(of_quota(wants(1, 1), *many, wants(100, 0, cpus=4), cpu_milli=9000)) == [1, 100]
    unlike = [wants(number, 2, cpus=number) for number in range(2, 6)]
    assert begun(of_quota(wants(1, 1), *unlike, wants(100, 0, cpus=4), cpu_milli=9000)) == [1]
    assert begun(of_quota(wants(1, 1), *unlike, wants(100, 0, cpus=3), cpu_milli=9000)) == [1, 100]


def test_a_refused_task_is_admitted_before_any_later_one_that_asks_for_the_same() -> None:
    """However many small ones come: each time one ends, what it had is kept."""
    picture = of_quota(wants(1, 1), wants(2, 1), wants(3, 2), *(wants(n, 1) for n in range(4, 9)))
    carry_out(picture, plan(picture, PRIORITY))
    assert sorted(task_id.job_id for task_id in picture.placed) == [1, 2]
    picture.release(TaskId(1, 0))
    assert begun(picture) == []
    picture.release(TaskId(2, 0))
    assert begun(picture) == [3]


@pytest.mark.parametrize("policy", [PRIORITY, DRF])
def test_what_a_task_waits_for_in_a_quota_above_it_is_kept_from_its_tenants_siblings_too(
    policy: Policy,
) -> None:
    waiting = [wants(1, 2, tenant_id="a/ann"), wants(2, 1, tenant_id="a/bob")]
    picture = of_quota(*waiting, policy=policy)
    picture.place(wants(9, 1, held=False, tenant_id="a/x"), TaskId(9, 0).attempt(1), "n1", (0,))
    assert begun(picture, policy) == []


@pytest.mark.parametrize("policy", [PRIORITY, DRF])
def test_what_a_task_waits_for_in_its_own_quota_is_not_kept_from_its_siblings(policy: Policy) -> None:
    waiting = [wants(1, 2, tenant_id="a/ann"), wants(2, 1, tenant_id="a/ann"), wants(3, 2, tenant_id="a/bob")]
    picture = of_quota(*waiting, policy=policy)
    picture.set_tenant(Tenant("a/ann", limits=Limits(gpu_milli=2000)))
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=3000)))
    picture.place(wants(9, 1, held=False, tenant_id="a/ann"), TaskId(9, 0).attempt(1), "n1", (0,))
    assert begun(picture, policy) == [3]


def test_what_is_kept_is_kept_from_lower_classes_too_and_from_nobody_before() -> None:
    below = wants(3, 1, 1, PriorityClass.BEST_EFFORT)
    before = wants(2, 1, 1, PriorityClass.HIGH)
    picture = of_quota(wants(1, 2), below, wants(4, 0, 1, PriorityClass.BEST_EFFORT))
    picture.place(wants(9, 1, held=False), TaskId(9, 0).attempt(1), "n1", (0,))
    assert begun(picture) == [4]
    picture.add_waiting(before)
    assert begun(picture) == [2, 4]


def test_for_a_gang_what_all_of_it_needs_is_kept() -> None:
    pair = gang(1, [asks(1)] * 2, tenant_id="a", held=True)
    picture = of_quota(*pair, wants(2, 1), wants(3, 0))
    picture.place(wants(9, 1, held=False), TaskId(9, 0).attempt(1), "n1", (0,))
    assert begun(picture) == [3]


def test_for_one_who_alone_is_more_than_a_limit_nothing_is_kept() -> None:
    """The limit was lowered while it waited."""
    assert begun(of_quota(wants(1, 3), wants(2, 1))) == [2]


HOUR = 1000 * 3600


def taking(job_id: int, hours: float, gpus: int = 1, **more: Any) -> TaskBrief:
    """So many GPU-hours at the most: a minute of it is grace."""
    return wants(job_id, gpus, time_limit_s=int(3600 * hours) // gpus - 60, **more)


def of_hours(*waiting: TaskBrief, used: float, limit: float = 10, gpus: int = 8) -> Picture:
    """Tenant `a` may have so many GPU-hours, and so many GPUs."""
    picture = picture_of([node(cpus=64, gpus=8)], waiting)
    use, most = JobUse(gpu_ms=int(used * HOUR)), JobLimits(gpu_ms=int(limit * HOUR))
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=1000 * gpus), job_limits=most, job_use=use))
    return picture


def test_nobody_waits_for_one_who_needs_gpu_hours_that_are_spent() -> None:
    """They come back with the next period, whoever ends before it."""
    assert begun(of_hours(taking(1, 4), taking(2, 1), wants(3, 0), used=7)) == [2, 3]
    assert begun(of_hours(taking(1, 4, gpus=4), taking(2, 1), used=7, gpus=4)) == [2]


def test_gpu_hours_that_somebody_who_runs_may_give_back_are_waited_for() -> None:
    """Else small ones would take them again and again, and the large one would never have enough."""
    picture = of_hours(taking(1, 4), taking(2, 1), wants(3, 0), used=2)
    picture.place(taking(9, 5, held=False), TaskId(9, 0).attempt(1), "n1", (0,))
    assert picture.hours.used == {"a": 7 * HOUR}
    assert picture.hours.spent == {"a": 2 * HOUR}
    assert begun(picture) == [3]
    placed = picture.placed[TaskId(9, 0)]
    picture.started(placed, picture.now_ms)
    picture.now_ms += 3600 * 1000
    picture.release(TaskId(9, 0))
    assert picture.hours.spent == picture.hours.used == {"a": 3 * HOUR}
    assert begun(picture) == [1, 2, 3]


def test_gpu_hours_are_kept_for_one_who_waits_for_something_else() -> None:
    picture = of_hours(taking(1, 4, gpus=2), taking(2, 1), wants(3, 0), used=4, gpus=2)
    picture.place(taking(9, 2, held=False), TaskId(9, 0).attempt(1), "n1", (0,))
    assert begun(picture) == [3]


def test_for_one_like_it_that_takes_fewer_gpu_hours_all_is_kept() -> None:
    """Though the first of their kind is not waited for: both GPUs are for job 2."""
    waiting = taking(1, 9, gpus=2), taking(2, 2, gpus=2), taking(3, 1)
    picture = of_hours(*waiting, used=4, gpus=2)
    picture.place(taking(9, 1, held=False), TaskId(9, 0).attempt(1), "n1", (0,))
    assert begun(picture) == []
    picture.release(TaskId(9, 0))
    assert begun(picture) == [2]


def test_places_for_running_tasks_are_kept_too() -> None:
    places = [wants(1, 1), wants(2, 2), wants(3, 0), wants(4, 0)]
    picture = of_quota(*places)
    picture.set_tenant(Tenant("a", limits=Limits(gpu_milli=2000), job_limits=JobLimits(running=3)))
    assert begun(picture) == [1, 3]


def test_who_was_charged_at_submission_does_not_wait_for_one_who_is_held() -> None:
    pair = gang(1, [asks()] * 2, tenant_id="a", held=True)
    picture = picture_of([node(cpus=64)], [*pair, task(2, tenant_id="a"), task(3, tenant_id="a", held=True)])
    picture.set_tenant(Tenant("a", job_limits=JobLimits(running=2)))
    picture.place(wants(9, 0, held=False), TaskId(9, 0).attempt(1), "n1", ())
    assert begun(picture) == [2]


def test_what_is_kept_for_one_whose_kind_has_no_room_is_kept_in_the_next_plan_too() -> None:
    """Somebody else of its kind was found to have no room on any machine: that does not cost it its place."""
    first, large = wants(1, 1), wants(2, 2, cpus=4)
    alike = task(3, large.request, tenant_id="b")
    picture = picture_of([node(cpus=6, gpus=2)], [first, large, alike])
    picture.set_tenant(Tenant("a", limits=Limits(cpu_milli=5000, gpu_milli=2000)))
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(wants(4, 0, cpus=2, time_limit_s=10))
    assert plan(picture, PRIORITY).starts == plan(picture, PRIORITY, whole=True).starts == ()
    picture.add_waiting(wants(5, 0, cpus=0))
    assert begun(picture) == [5] == [each.task_id.job_id for each in plan(picture, PRIORITY).starts]
