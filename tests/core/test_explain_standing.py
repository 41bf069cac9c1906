"""Where a task stands, with its victims and in the line: told, word by word."""

from dataclasses import replace
from typing import Any

from tests.core.core_story import DRF, NOW_MS, PRIORITY, asks, at, carry_out, node, picture_of, task
from tests.core.explain_story import waits, why
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy, PoolPolicy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Status
from tgpu.domain.priority import PriorityClass
from tgpu.domain.views import Reason

HIGH, LOW = PriorityClass.HIGH, PriorityClass.LOW


# Backoff, victims


def test_who_was_preempted_is_told_when_it_may_start_again() -> None:
    picture = picture_of([node()], [task(1, status=Status.PREEMPTED, eligible_ms=at(8))])
    assert why(picture, 1) == waits(
        1,
        Reason("backoff", "was preempted; it may start again in 8 s", {"eligible_in_s": 8}),
        starts_at_ms=at(8),
        estimate="has a reservation: starts ≈ 13:46 UTC on n1",
    )


def test_who_has_a_claim_is_told_who_is_being_stopped_for_it() -> None:
    victim = (task(17, asks(gpus=1), LOW, user="ann"), "n1", (0,))
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2), HIGH)], [victim])
    text = "job 17 of ann is being stopped for it; it starts on n1 when that has gone"
    expected = waits(
        1,
        Reason("claim", text, {"node_id": "n1", "job_ids": [17]}),
        starts_at_ms=at(30),
        estimate="starts ≈ 13:47 UTC at the latest",
    )
    assert why(picture, 1) == expected
    carry_out(picture, plan(picture, PRIORITY))
    assert why(picture, 1) == expected
    picture.release(TaskId(17, 0))
    assert why(picture, 1).estimate == "starts now on n1"


# Why nobody gives way


def crowded(policy: Policy = PRIORITY, **of_mine: Any) -> Picture:
    """Job 1, of class high, needs the GPU that job 17 of class low has had for a minute."""
    victim = (task(17, asks(gpus=1), LOW, user="ann", time_limit_s=3600), "n1", (0,))
    picture = picture_of([node(gpus=1)], [task(1, asks(gpus=1), HIGH, **of_mine)], [victim], policy)
    picture.now_ms = at(60)
    return picture


def test_that_preemption_is_off_is_told_where_it_would_help() -> None:
    off = replace(PRIORITY, preemption=False)
    text = 'job 17 of ann would give way to it, but preemption is off (preemption = "off" in the settings)'
    reason = Reason("preemption-off", text, {"job_ids": [17]})
    assert reason in why(crowded(off), 1).reasons
    two = crowded(off)
    two.add_waiting(task(2, asks(gpus=1), HIGH))
    assert [r.code for r in why(two, 2).reasons] == ["gpus", "in-line"]


def test_who_is_protected_by_min_run_is_named_with_the_moment() -> None:
    patient = replace(PRIORITY, min_run_s=600)
    text = "job 17 of ann may give way to it, but not until 13:56 UTC: a job runs 10m first (min_run)"
    picture = crowded(patient)
    assert why(picture, 1).reasons[1] == Reason("min-run", text, {"job_ids": [17], "until_ms": at(600)})
    picture.now_ms = at(601)
    assert [reason.code for reason in why(picture, 1).reasons] == ["claim"]


def test_who_was_preempted_is_told_that_it_does_not_preempt() -> None:
    text = "job 17 of ann would give way to it, but who was preempted does not preempt in turn"
    picture = crowded(status=Status.PREEMPTED, attempts=1)
    assert why(picture, 1).reasons[1] == Reason("was-preempted", text, {"job_ids": [17]})


def test_nothing_is_said_of_preemption_where_it_would_not_help() -> None:
    off = replace(PRIORITY, preemption=False)
    picture = picture_of(
        [node(gpus=1)], [task(1, asks(gpus=1), HIGH)], [(task(9, asks(gpus=1), HIGH), "n1", (0,))], off
    )
    assert [reason.code for reason in why(picture, 1).reasons] == ["gpus"]


# Until when, without a reservation


def full(policy: Policy, *waiting: TaskBrief) -> Picture:
    running = (task(9, asks(gpus=2), time_limit_s=3600), "n1", (0, 1))
    return picture_of([node(gpus=2)], waiting, [running], policy)


def test_the_first_in_line_is_told_why_it_has_no_reservation() -> None:
    never = Policy(PoolPolicy(order="priority", reserve=0))
    assert why(full(never, task(1, asks(gpus=2))), 1).estimate == (
        "not before 14:46 UTC: there are no reservations (reserve = 0), so others may pass it"
    )
    rivals = [task(1, asks(gpus=2), tenant_id="a"), task(2, asks(gpus=1), tenant_id="b")]
    picture = full(DRF, *rivals)
    assert why(picture, 1).estimate == "has a reservation: starts ≈ 14:46 UTC on n1"
    assert why(picture, 2).estimate == (
        "not before 1970-01-13 14:46 UTC: another job has the reservation of its class"
    )
    text = "the reservation of its class is job 1's"
    assert why(picture, 2).reasons[-1] == Reason("reserved", text, {"job_id": 1})


def test_a_reservation_that_nobody_needs_yet_is_told_as_a_moment() -> None:
    picture = full(PRIORITY)
    carry_out(picture, plan(picture, PRIORITY, whole=True))
    picture.add_waiting(task(1, asks(gpus=2)))
    carry_out(picture, plan(picture, PRIORITY))
    assert not picture.reservations
    assert why(picture, 1).estimate == (
        "starts ≈ 14:46 UTC: nobody waits who could pass it, so it needs no reservation yet"
    )


# The line


def test_the_line_is_told_with_the_tenants_standing_and_higher_classes() -> None:
    waiting = [
        task(1, asks(gpus=4), tenant_id="vision"),
        task(2, asks(gpus=4), tenant_id="lang"),
        task(3, asks(gpus=4), tenant_id="vision"),
        task(4, asks(gpus=4), HIGH),
    ]
    running = [
        (task(8, asks(gpus=3), HIGH, tenant_id="vision", time_limit_s=60), "n1", (0, 1, 2)),
        (task(9, asks(gpus=1), HIGH, tenant_id="lang", time_limit_s=60), "n1", (3,)),
    ]
    picture = picture_of([node(gpus=4)], waiting, running, DRF)
    in_line = "2nd in line of tenant vision in class default"
    share = "tenant vision is at 1.5 times its share; 1 other tenant is served first"
    assert why(picture, 3).reasons[1:] == (
        Reason("in-line", in_line, {"ahead": 1, "class": "default", "tenant_id": "vision"}),
        Reason("share", share, {"tenant_id": "vision", "times": 1.5, "before": 1}),
        Reason("higher-class", "1 task of higher classes waits before it", {"ahead": 1}),
    )
    assert [reason.code for reason in why(picture, 2).reasons] == ["gpus", "higher-class"]


def test_who_has_a_reservation_stands_before_the_queue() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2))], [(task(9, asks(gpus=2)), "n1", (0, 1))])
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(task(2, asks(gpus=2), submitted_ms=NOW_MS - 1001))
    first, second = why(picture, 1), why(picture, 2)
    assert (first.position, [reason.code for reason in first.reasons]) == (1, ["gpus"])
    assert (second.position, [reason.code for reason in second.reasons]) == (2, ["gpus", "in-line"])


def test_who_comes_with_a_higher_priority_stands_before_the_reservation() -> None:
    picture = picture_of([node(gpus=2)], [task(1, asks(gpus=2))], [(task(9, asks(gpus=2)), "n1", (0, 1))])
    carry_out(picture, plan(picture, PRIORITY))
    picture.add_waiting(task(2, asks(gpus=2), priority=5))
    assert (why(picture, 1).position, why(picture, 2).position) == (2, 1)
