"""Which quota a task waits for: told, word by word."""

from dataclasses import replace
from datetime import UTC, datetime

from tests.core.core_story import (
    DRF,
    NOW_MS,
    PRIORITY,
    asks,
    at,
    carry_out,
    device,
    gang,
    node,
    picture_of,
    task,
)
from tests.core.explain_story import fewer_gpus, held, holder, lab, waits, why
from tgpu.core.explain import never_fits
from tgpu.core.planner import plan
from tgpu.domain.ids import TaskId
from tgpu.domain.lifecycle import Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, JobUse, Limits, Period
from tgpu.domain.tenant import Tenant, Terms
from tgpu.domain.views import Advice, Reason

LOW = PriorityClass.LOW
HOUR = 1000 * 3600


def test_a_held_task_is_told_whose_limit_holds_it_who_has_it_and_until_when() -> None:
    picture = lab(held(1, 2), held(2, 1), limits=Limits(gpu_milli=4000))
    text = "held by the quota of tenant lab: 3 of 4 GPUs are admitted, and it needs 2; job 17 of ann has 3"
    data = {"tenant_id": "lab", "resource": "GPUs", "limit": 4.0, "used": 3.0, "needs": 2.0, "job_ids": [17]}
    assert why(picture, 1) == waits(
        1,
        Reason("quota", text, data),
        starts_at_ms=at(3600),
        estimate="its quota has room at the latest ≈ 14:46 UTC, if what runs takes all its time",
        advice=fewer_gpus(2, 1),
    )


def test_who_waits_because_something_is_kept_for_another_is_told_for_whom_and_how_much() -> None:
    picture = lab(held(1, 2), held(2, 1), limits=Limits(gpu_milli=4000))
    text = (
        "held by the quota of tenant lab: 3 of 4 GPUs are admitted, job 1 comes before it and needs 2, "
        "and it needs 1"
    )
    data = {"job_id": 1, "tenant_id": "lab", "resource": "GPUs", "limit": 4.0, "used": 3.0, "kept": 2.0}
    in_line = "2nd in line of tenant lab/vision in class default"
    assert why(picture, 2) == waits(
        2,
        Reason("quota", text, data | {"needs": 1.0}),
        Reason("in-line", in_line, {"ahead": 1, "class": "default", "tenant_id": "lab/vision"}),
        position=2,
        starts_at_ms=at(3600),
        estimate="its quota has room ≈ 14:46 UTC, if what runs and the task before it take all their time",
        advice=Advice("priority_class", "default", "high", "with --class high it would start now on n1"),
    )


def test_something_may_be_kept_for_a_job_of_another_tenant() -> None:
    others = held(1, 2, tenant_id="lab/audio"), held(2, 1)
    assert why(lab(*others, limits=Limits(gpu_milli=4000)), 2).summary == (
        "waits: held by the quota of tenant lab: 3 of 4 GPUs are admitted, job 1 comes before it and needs "
        "2, and it needs 1"
    )


def test_a_held_gang_keeps_what_it_needs_from_every_task_of_a_held_gang_behind_it() -> None:
    first = task(9, asks(gpus=1), tenant_id="lab")
    large = gang(1, [asks(gpus=1)] * 3, tenant_id="lab", held=True)
    small = gang(2, [asks(gpus=1)] * 2, tenant_id="lab", held=True)
    picture = picture_of([node(gpus=8)], large + small, [(first, "n1", (0,))], policy=DRF)
    picture.set_tenant(Tenant("lab", 1, Limits(gpu_milli=3000)))
    for index in range(2):
        assert why(picture, 2, index).reasons[0].text == (
            "held by the quota of tenant lab: 1 of 3 GPUs is admitted, job 1 comes before it and needs 3, "
            "and it needs 2"
        )


def test_who_waits_behind_one_that_waits_for_its_running_jobs_is_told_so() -> None:
    pair = gang(1, [asks()] * 2, tenant_id="lab/x", held=True)
    behind = task(2, tenant_id="lab/y", held=True)
    picture = lab(*pair, behind, limits=Limits(), job_limits=JobLimits(running=2))
    text = (
        "held by the limit of tenant lab on running tasks: 1 of 2 is taken, job 1 comes before it and needs "
        "2, and it needs 1"
    )
    data = {"job_id": 1, "tenant_id": "lab", "resource": "running tasks", "limit": 2.0, "used": 1.0}
    assert why(picture, 2).reasons[0] == Reason("quota", text, data | {"kept": 2.0, "needs": 1.0})


def test_who_waits_behind_one_whose_gpu_hours_are_kept_is_told_how_many() -> None:
    """Job 1 waits for a GPU of its quota; of the nine hours, which job 17 has three of, it keeps five."""
    first = held(1, 2, tenant_id="lab", time_limit_s=9000 - 60)
    behind = task(2, asks(1), tenant_id="lab", held=True, time_limit_s=7200 - 60)
    most = JobLimits(gpu_ms=9 * HOUR)
    limits = Limits(named=(("gpu:a100", 4000),), gpu_milli=4000)
    picture = lab(first, behind, limits=limits, job_limits=most, job_use=JobUse(gpu_ms=3 * HOUR))
    assert why(picture, 1).reasons[0].code == "quota"
    assert "job 1 comes before it and needs 2" in why(picture, 2).reasons[0].text
    picture.set_tenant(
        Tenant("lab", job_limits=replace(most, gpu_ms=7 * HOUR), job_use=JobUse(gpu_ms=3 * HOUR))
    )
    assert why(picture, 1).reasons[0].code == "gpu-hours"
    text = (
        "held by the limit of tenant lab on GPU-hours: 3 of 7 are taken, job 1 comes before it and needs 5, "
        "and it needs 2"
    )
    assert why(picture, 2).reasons[0].text == text


def test_who_has_only_the_burst_is_told_who_waits_for_it_first() -> None:
    large = task(1, asks(gpus=2), LOW, tenant_id="lab", held=True)
    small = task(2, asks(gpus=1), LOW, tenant_id="lab", held=True)
    picture = lab(large, small, limits=Limits(gpu_milli=3000))
    text = "held: job 1 comes before it, and neither quota nor burst has room for that one yet"
    assert why(picture, 2).reasons[0] == Reason("quota", text, {"job_id": 1})


def test_a_limit_by_name_is_told_by_its_name() -> None:
    picture = lab(
        task(1, asks(1, gpu_type="a100"), tenant_id="lab", held=True), limits=Limits(named=(("gpu:a100", 0),))
    )
    assert why(picture, 1).reasons[0].text == (
        "held by the quota of tenant lab: 0 of 0 a100 GPUs are admitted, and it needs 1: it cannot "
        "start unless that limit is raised"
    )
    asking = task(1, asks(generic=(("fpga", 2),)), tenant_id="lab", held=True)
    picture = picture_of([node(generic={"fpga": 4})], [asking])
    picture.set_tenant(Tenant("lab", limits=Limits(named=(("generic:fpga", 1),))))
    assert why(picture, 1).reasons[0].text == (
        "held by the quota of tenant lab: 0 of 1 fpga are admitted, and it needs 2: it cannot "
        "start unless that limit is raised"
    )


def test_who_may_burst_waits_only_for_the_burst() -> None:
    picture = lab(held(1, 2, LOW), limits=Limits(gpu_milli=4000))
    assert why(picture, 1).estimate == "starts now on n1"
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=4000), terms=Terms(may_burst=False)))
    assert why(picture, 1).reasons[0].code == "quota"
    assert plan(picture, DRF).starts == ()


def test_who_runs_on_the_burst_is_told_that_it_is_the_first_to_give_way() -> None:
    picture = lab(held(1, 2, LOW), limits=Limits(gpu_milli=4000))
    carry_out(picture, plan(picture, DRF))
    assert why(picture, 1).summary == (
        "is being started on n1, GPU 3, 4, beyond its tenant's quota: it is the first to give way"
    )


def test_who_waits_for_the_number_of_running_tasks_is_told_it_and_when_one_ends() -> None:
    waiting = [task(1, tenant_id="lab"), task(2, tenant_id="lab")]
    picture = lab(*waiting, limits=Limits(), job_limits=JobLimits(running=1))
    text = "tenant lab may run 1 job at once, and 1 is running"
    reason = Reason("running-limit", text, {"tenant_id": "lab", "limit": 1, "used": 1, "needs": 1})
    assert why(picture, 1) == waits(
        1,
        reason,
        starts_at_ms=at(3600),
        estimate="its quota has room at the latest ≈ 14:46 UTC, if what runs takes all its time",
    )
    assert [each.code for each in why(picture, 2).reasons] == ["running-limit", "in-line"]


def test_who_stands_behind_a_gang_that_is_too_large_for_the_limit_is_told_so() -> None:
    pair = gang(1, [asks()] * 2, tenant_id="lab")
    picture = lab(*pair, task(2, tenant_id="lab"), limits=Limits(), job_limits=JobLimits(running=2))
    assert why(picture, 1).reasons[0].text == (
        "tenant lab may run 2 jobs at once, and 1 is running; it needs 2 more"
    )
    text = "job 1 of its tenant comes before it, and has to wait for its tenant's limits"
    assert why(picture, 2).reasons[0] == Reason("quota", text, {"job_id": 1})


def test_who_waits_for_gpu_hours_is_told_when_the_next_period_begins_and_what_would_fit() -> None:
    asking = task(1, asks(1), tenant_id="lab", time_limit_s=7140)  # and a minute of grace
    use, most = JobUse(gpu_ms=8 * HOUR, period_from_ms=0), JobLimits(gpu_ms=9 * HOUR, period=Period.DAY)
    picture = lab(asking, limits=Limits(), job_limits=most, job_use=use)
    until = round(datetime(1970, 1, 13, tzinfo=UTC).timestamp() * 1000)
    assert NOW_MS < until < NOW_MS + 86_400_000
    text = (
        "tenant lab has used or reserved 8 of its 9 GPU-hours of this day, and it may take 2; "
        "the next day begins 1970-01-13 00:00 UTC; with --time 59m there would be enough"
    )
    data = {
        "tenant_id": "lab",
        "limit": 9.0,
        "used": 8.0,
        "needs": 2.0,
        "until_ms": until,
        "time_limit_s": 3540,
    }
    assert why(picture, 1) == waits(
        1,
        Reason("gpu-hours", text, data),
        starts_at_ms=until,
        estimate="when others give hours back, at the latest when the period ends: 1970-01-13 00:00 UTC",
        advice=Advice("time_limit_s", 7140, 3540, "with --time 59m it would start now on n1"),
    )


def test_who_needs_gpu_hours_that_are_spent_is_told_that_it_is_not_waited_for() -> None:
    """Of the nine, the three and a bit that job 17 has reserved may come back; the other six do not."""
    first = task(1, asks(1), tenant_id="lab", time_limit_s=4 * 3600 - 60, held=True)
    use, most = JobUse(gpu_ms=9 * HOUR + 3000 * 60), JobLimits(gpu_ms=9 * HOUR, period=Period.DAY)
    picture = lab(first, limits=Limits(), job_limits=most, job_use=use)
    told = why(picture, 1)
    assert told.reasons[0].text == (
        "tenant lab has used or reserved 9.05 of its 9 GPU-hours of this day, and it may take 4; 6 are spent "
        "and do not come back before that ends, so others may pass it; the next day begins "
        "1970-01-13 00:00 UTC"
    )
    assert told.reasons[0].data["spent"] == 6.0
    assert told.estimate == "when the next period of GPU-hours begins: 1970-01-13 00:00 UTC"
    picture.set_tenant(Tenant("lab", job_limits=replace(most, period=Period.EVER), job_use=use))
    assert (
        why(picture, 1)
        .reasons[0]
        .text.endswith("6 are spent and do not come back before the limit is raised, so others may pass it")
    )


def test_who_lacks_room_as_well_is_told_both() -> None:
    picture = lab(held(1, 2), limits=Limits(gpu_milli=4000), gpus=3)
    assert [each.code for each in why(picture, 1).reasons] == ["gpus", "quota"]
    assert why(picture, 1).holders == (holder(17, 3, (0, 1, 2), user="ann", remaining_s=3600.0),)


def test_where_others_would_give_way_the_quota_is_what_it_waits_for() -> None:
    low = task(9, asks(gpus=3), LOW, tenant_id="other", user="bob", time_limit_s=3600)
    of_ann = task(17, asks(gpus=3), tenant_id="lab", user="ann", time_limit_s=3600)
    running = [(of_ann, "n1", (0, 1, 2)), (low, "n1", (3, 4, 5))]
    picture = picture_of([node(gpus=6)], [held(1, 2)], running, PRIORITY)
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=4000)))
    assert [each.code for each in why(picture, 1).reasons] == ["quota", "gpus"]
    assert why(picture, 1).summary.startswith(
        "waits: held by the quota of tenant lab: 3 of 4 GPUs are admitted"
    )


def test_a_limit_that_was_lowered_below_what_is_admitted_is_told_as_that() -> None:
    assert why(lab(held(1, 1), limits=Limits(gpu_milli=1000)), 1).reasons[0].text == (
        "held by the quota of tenant lab: 3 GPUs are admitted, its limit is 1, and it needs 1; job 17 of ann "
        "has 3"
    )
    first = task(5, asks(gpus=1), tenant_id="lab", user="ann")
    picture = picture_of([node(gpus=8)], [held(1, 1)], [(first, "n1", (0,))], DRF)
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=1000)))
    assert ": 1 of 1 GPU is admitted, and it needs 1;" in why(picture, 1).reasons[0].text


def test_who_is_kept_off_a_model_is_told_to_ask_for_it_by_name() -> None:
    barred = task(1, asks(1, gpu_types_barred=("a100",)), tenant_id="lab/vision")
    others = [node("n1", gpus=2), node("n2", gpus=[device(0, "Tesla T4")])]
    busy = (task(9, asks(1)), "n2", (0,))
    picture = picture_of(others, [barred], [busy])
    picture.set_tenant(Tenant("lab", limits=Limits(named=(("gpu:a100", 4000),))))
    text = "tenant lab has a limit on a100 GPUs: name the type with --gpu-type a100 to use them"
    reason = Reason("gpu-type-limit", text, {"gpu_type": "a100", "tenant_id": "lab"})
    assert why(picture, 1).reasons[:2] == (
        Reason(
            "gpus",
            "needs 1 GPU; n2 has 0 of 1 GPUs free",
            {"node_id": "n2", "needs": 1.0, "free": 0, "of": 1},
        ),
        reason,
    )
    assert never_fits(barred.request, picture_of([node(gpus=2)])) == (
        "it asks for 1 GPU, and its tenant has a limit on a100 GPUs, which are given only by name: ask for "
        "them with --gpu-type a100"
    )


def test_whose_start_the_store_refused_is_told_when_it_is_tried_again() -> None:
    picture = picture_of([node()], [task(1, eligible_ms=at(1))])
    text = "its quota had no room after all when it was to start; it is tried again in 1 s"
    assert why(picture, 1).reasons == (Reason("backoff", text, {"eligible_in_s": 1}),)
    assert picture.waiting[TaskId(1, 0)].status is Status.PENDING
    assert plan(picture, PRIORITY).starts == ()


def test_one_that_is_larger_than_a_lowered_limit_is_told_that_it_cannot_start() -> None:
    answer = why(lab(held(2, 2), limits=Limits(gpu_milli=1000)), 2)
    assert "and it needs 2: it cannot start unless that limit is raised" in answer.summary


def test_nobody_is_told_to_take_any_model_where_models_are_given_only_by_name() -> None:
    model = Limits(named=(("gpu:a100", 3000),))
    taken = task(17, asks(gpus=3, gpu_type="a100"), tenant_id="lab")
    waiting = task(2, asks(gpus=1, gpu_type="a100"), tenant_id="lab", held=True)
    picture = picture_of([node(gpus=8)], [waiting], [(taken, "n1", (0, 1, 2))], DRF)
    picture.set_tenant(Tenant("lab", limits=model))
    assert why(picture, 2).reasons
    assert why(picture, 2).advice is None


# What can never be


def test_one_that_needs_more_gpu_hours_than_a_lowered_limit_has_is_told_that_it_cannot_start() -> None:
    asking = task(1, asks(1), tenant_id="lab/vision", held=True, time_limit_s=4 * 3600 - 60)
    most = JobLimits(gpu_ms=3 * HOUR, period=Period.DAY)
    picture = lab(asking, limits=Limits(), job_limits=most, job_use=JobUse(period_from_ms=0))
    assert why(picture, 1) == waits(
        1,
        Reason(
            "gpu-hours",
            "tenant lab has used or reserved 0 of its 3 GPU-hours of this day, and it may take 4: it cannot "
            "start unless that limit is raised; with --time 2h59m there would be enough",
            {
                "tenant_id": "lab",
                "limit": 3.0,
                "used": 0.0,
                "needs": 4.0,
                "until_ms": 12 * 86_400_000,
                "time_limit_s": 10740,
            },
        ),
        advice=Advice("time_limit_s", 14340, 10740, "with --time 2h59m it would start now on n1"),
    )


def test_where_nobody_may_run_nobody_is_told_when_it_starts() -> None:
    picture = lab(task(1, tenant_id="lab"), limits=Limits(), job_limits=JobLimits(running=0))
    told = why(picture, 1)
    assert told.reasons[0].text == (
        "tenant lab may run 0 jobs at once, and 1 is running: it cannot start unless that limit is raised"
    )
    assert (told.starts_at_ms, told.estimate) == (None, None)


def test_a_limit_that_can_never_have_room_is_told_before_a_nearer_one_that_is_full() -> None:
    """Of the two GPUs of lab/vision one is taken; lab, above it, may have only one by now."""
    taken = task(5, asks(gpus=1), tenant_id="lab/vision", user="ann", time_limit_s=3600)
    picture = picture_of([node(gpus=8)], [held(1, 2)], [(taken, "n1", (0,))], DRF)
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=1000)))
    picture.set_tenant(Tenant("lab/vision", limits=Limits(gpu_milli=2000)))
    told = why(picture, 1)
    assert "tenant lab: 1 of 1 GPU is admitted, and it needs 2: it cannot start unless" in told.summary
    assert (told.starts_at_ms, told.estimate) == (None, None)


def test_spent_gpu_hours_are_told_before_room_that_is_lacking() -> None:
    asking = task(1, asks(8), tenant_id="lab", time_limit_s=1800 - 60, held=True)
    most = JobLimits(gpu_ms=9 * HOUR, period=Period.DAY)
    use = JobUse(gpu_ms=9 * HOUR + 3000 * 60)
    picture = lab(asking, limits=Limits(), job_limits=most, job_use=use)
    assert [each.code for each in why(picture, 1).reasons] == ["gpu-hours", "gpus"]


def test_quota_comes_before_a_tainted_node_that_is_not_needed() -> None:
    of_ann = task(17, asks(gpus=3), tenant_id="lab", user="ann", time_limit_s=3600)
    nodes = [node("n1", gpus=8), node("n2", gpus=8, taints=("spot",))]
    picture = picture_of(nodes, [held(1, 2)], [(of_ann, "n1", (0, 1, 2))], DRF)
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=4000)))
    answer = why(picture, 1)
    assert [reason.code for reason in answer.reasons] == ["quota", "taint"]
    assert answer.summary.startswith("waits: held by the quota of tenant lab")
