"""Expected starts of pending jobs: what the projection of the queue says."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.core_story import (
    DRF,
    FIFO,
    HOUR_S,
    NOW_MS,
    PRIORITY,
    asks,
    at,
    carry_out,
    claim,
    gang,
    node,
    picture_of,
    preempt,
    task,
)
from tgpu.core.estimates import scenario
from tgpu.core.estimates.model import MOST_SIMULATED, KindFacts, Unit
from tgpu.core.estimates.projection import SCENARIOS, project
from tgpu.core.estimates.reservations import Reserved, reserve
from tgpu.core.estimates.run_times import RunTimes, Work
from tgpu.core.estimates.snapshot import take
from tgpu.core.estimates.start_intervals import Estimates, Residuals, Widening, estimate
from tgpu.core.estimates.trial_nodes import TrialNodes
from tgpu.core.picture import Picture, Window
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Cause, NodeState
from tgpu.domain.priority import PriorityClass
from tgpu.domain.start_estimate import StartInterval
from tgpu.domain.tenant import Tenant
from tgpu.domain.timing import Timing


def known(*runs: tuple[TaskBrief, float], times: int = 8) -> RunTimes:
    """So many earlier runs of each task, all of this length."""
    found = RunTimes()
    found.add_all((Work.of(each), run_s) for each, run_s in runs for _ in range(times))
    return found


def estimates(picture: Picture, run_times: RunTimes | None = None, policy: Policy = PRIORITY) -> Estimates:
    return estimate(take(picture, policy), run_times or RunTimes())


def interval(made: Estimates, job_id: int) -> StartInterval:
    found = made.jobs[job_id].interval
    assert found is not None, made.jobs[job_id].reason
    return found


def seconds(found: StartInterval) -> tuple[int, int, int]:
    """After now."""
    ends = (found.earliest_ms, found.expected_ms, found.latest_ms)
    return tuple((each - NOW_MS) // 1000 for each in ends)  # type: ignore[return-value]


def runs(job_id: int, gpus: float = 1, **more: object) -> TaskBrief:
    return task(job_id, asks(gpus), name="train", command="train.py#1", **more)


def test_job_starts_when_the_running_one_ends_by_earlier_run_times() -> None:
    running, waiting = runs(1, time_limit_s=HOUR_S), task(2, asks(1), time_limit_s=HOUR_S)
    picture = picture_of([node(gpus=1)], [waiting], [(running, "n1", (0,))])
    found = interval(estimates(picture, known((running, 600.0))), 2)
    earliest, expected, latest = seconds(found)
    assert expected == 600
    assert 450 <= earliest <= expected <= latest <= 800
    assert found.basis == "run times of 8 similar jobs"


def test_without_earlier_runs_the_time_limit_is_the_basis() -> None:
    picture = picture_of(
        [node(gpus=1)], [task(2, asks(1))], [(task(1, asks(1), time_limit_s=HOUR_S), "n1", (0,))]
    )
    found = interval(estimates(picture), 2)
    earliest, expected, latest = seconds(found)
    assert 0 <= earliest < expected < latest <= HOUR_S + 60
    assert found.basis == "time limits"


def test_reservation_bounds_the_expected_start() -> None:
    picture = picture_of(
        [node(gpus=1)],
        [task(2, asks(1), time_limit_s=60), task(3, asks(1), time_limit_s=60)],
        [(task(1, asks(1), time_limit_s=300), "n1", (0,))],
    )
    carry_out(picture, plan(picture, PRIORITY, whole=True))
    first, second = (interval(estimates(picture), job_id) for job_id in (2, 3))
    assert first.expected_ms <= at(300)
    assert second.expected_ms >= first.expected_ms


def test_jobs_behind_others_start_later_and_every_one_has_an_interval() -> None:
    running = runs(1)
    picture = picture_of([node(gpus=1)], [runs(n) for n in range(2, 8)], [(running, "n1", (0,))])
    made = estimates(picture, known((running, 100.0)))
    assert [seconds(interval(made, n))[1] for n in range(2, 8)] == [100, 200, 300, 400, 500, 600]


def test_small_job_fills_a_gap_that_does_not_delay_the_first() -> None:
    long_run, large = runs(1, time_limit_s=1000), task(2, asks(2), time_limit_s=HOUR_S)
    fits, too_long = task(3, asks(1), time_limit_s=60), task(4, asks(1), time_limit_s=HOUR_S)
    picture = picture_of([node(gpus=2)], [large, fits, too_long], [(long_run, "n1", (0,))])
    made = estimates(picture, known((long_run, 900.0)))
    assert seconds(interval(made, 3))[1] == 0, "it is over before the first could start"
    assert seconds(interval(made, 2))[1] == 900
    assert interval(made, 4).expected_ms > interval(made, 2).expected_ms


def test_higher_class_comes_first() -> None:
    running = runs(1)
    waiting = [runs(2), runs(3, priority_class=PriorityClass.HIGH)]
    picture = picture_of([node(gpus=1)], waiting, [(running, "n1", (0,))])
    made = estimates(picture, known((running, 100.0)))
    assert interval(made, 3).expected_ms < interval(made, 2).expected_ms


def test_tenant_with_the_smaller_share_comes_first() -> None:
    running = [(runs(1, tenant_id="a"), "n1", (0,)), (runs(2, tenant_id="a"), "n1", (1,))]
    waiting = [runs(3, tenant_id="a"), runs(4, tenant_id="b")]
    picture = picture_of([node(gpus=2)], waiting, running, DRF)
    run_times = known((running[0][0], 100.0))
    run_times.add_all([(Work.of(running[0][0]), 300.0)] * 8)
    made = estimates(picture, run_times, DRF)
    assert interval(made, 4).expected_ms <= interval(made, 3).expected_ms


def test_gang_starts_once_there_is_room_for_all_of_it() -> None:
    short, long = runs(1), task(2, asks(2), name="slow", command="slow.py#1")
    run_times = known((short, 100.0), (long, 700.0))
    picture = picture_of(
        [node("n1", gpus=2), node("n2", gpus=2)],
        [*gang(3, [asks(2), asks(2)]), task(4, asks(1), time_limit_s=100)],
        [(short, "n1", (0,)), (long, "n2", (0, 1))],
    )
    made = estimates(picture, run_times)
    assert seconds(interval(made, 3))[1] == 700
    assert seconds(interval(made, 4))[1] <= 100, "a short one passes it"


def test_nodes_that_do_not_suit_or_take_no_tasks_are_of_no_use() -> None:
    running = runs(1)
    run_times = known((running, 100.0))
    nodes = [node("n1", gpus=1), node("n2", gpus=1, state=NodeState.DRAINING)]
    waiting = [task(2, asks(1)), task(3, asks(1, gpu_type="h100")), task(4, asks(2))]
    picture = picture_of(nodes, waiting, [(running, "n1", (0,))])
    made = estimates(picture, run_times)
    assert seconds(interval(made, 2))[1] == 100
    for job_id in (3, 4):
        assert made.jobs[job_id].reason == "no node that takes tasks can run it"


def test_window_is_waited_for_by_those_that_would_run_into_it() -> None:
    picture = picture_of([node(gpus=1)], [task(2, asks(1), time_limit_s=HOUR_S)])
    picture.set_windows([Window(frozenset({"n1"}), at(600), at(1200))])
    assert seconds(interval(estimates(picture), 2))[1] == 1200


def test_task_with_a_begin_time_is_expected_then_and_never_before() -> None:
    later = task(2, asks(1), timing=Timing(begin_ms=at(500)))
    picture = picture_of([node(gpus=1)], [later])
    picture.set_tenant(Tenant("default"))
    found = interval(estimates(picture), 2)
    assert (found.earliest_ms, found.expected_ms) == (at(500), at(500))


@pytest.mark.parametrize(
    ("timing", "reason"),
    [
        (Timing(held_by="bob"), "it is held"),
        (Timing(suspended_by="bob"), "it is suspended"),
        (Timing(unmet=True), "when the jobs that it depends on end is not known"),
    ],
)
def test_job_whose_start_does_not_depend_on_room_has_a_reason_instead(timing: Timing, reason: str) -> None:
    picture = picture_of([node(gpus=1)], [task(2, asks(1), timing=timing)])
    assert estimates(picture).jobs[2].reason == reason


def test_job_that_waits_for_a_quota_has_a_reason_instead() -> None:
    picture = picture_of([node(gpus=1)], [task(2, asks(1), held=True)])
    assert estimates(picture).jobs[2].reason == "it waits for its tenant's quota"


def test_job_with_a_claim_starts_once_its_victims_are_gone() -> None:
    victim = task(1, asks(1), PriorityClass.LOW)
    picture = picture_of([node(gpus=1)], [task(2, asks(1), PriorityClass.HIGH)], [(victim, "n1", (0,))])
    picture.preempt(preempt([1], claim(2, "n1", 0)))
    placed = picture.live(TaskId(1, 0).attempt(1))
    assert placed is not None
    picture.stopping(placed, Cause.PREEMPTED)
    assert seconds(interval(estimates(picture), 2))[:2] == (0, 30)


def test_tasks_of_an_array_without_rows_are_ahead_of_later_jobs() -> None:
    running = runs(1)
    picture = picture_of([node(gpus=1)], [runs(2), runs(3)], [(running, "n1", (0,))])
    run_times = known((running, 100.0))
    plain = estimate(take(picture, PRIORITY), run_times)
    more = estimate(take(picture, PRIORITY, {2: 5}), run_times)
    assert seconds(interval(plain, 3))[1] == 200
    assert seconds(interval(more, 3))[1] == 700


def test_queue_longer_than_what_is_simulated_is_extrapolated_in_order() -> None:
    running = runs(1)
    count = 2 * MOST_SIMULATED
    picture = picture_of([node(gpus=1)], (runs(n) for n in range(2, 2 + count)), [(running, "n1", (0,))])
    made = estimates(picture, known((running, 100.0)))
    starts = [seconds(interval(made, n))[1] for n in range(2, 2 + count)]
    assert starts == sorted(starts)
    assert starts[-1] == pytest.approx(100 * count, rel=0.05)


def test_same_snapshot_gives_the_same_estimates() -> None:
    picture = crowd(range(2, 12), 3)
    assert estimates(picture).jobs == estimates(picture).jobs


def test_taking_a_snapshot_leaves_the_plan_as_it_was() -> None:
    first, second = crowd(range(2, 12), 3), crowd(range(2, 12), 3)
    estimates(second)
    made, again = (plan(each, PRIORITY, whole=True) for each in (first, second))
    assert list(made.starts) == list(again.starts)
    assert made.reservations == again.reservations


def test_projection_ends_after_its_steps() -> None:
    picture = crowd(range(2, 300), 3)
    made = project(take(picture, PRIORITY), RunTimes(), most_steps=160)
    assert made.steps < 2000
    assert made.starts_ms.shape[1] == 298
    assert (made.starts_ms >= NOW_MS).all()


def crowd(jobs: Iterable[int], gpus: int, user: str = "ada") -> Picture:
    waiting = [
        task(n, asks(1 + n % 2), user=user, name="x", command="x.py#1", time_limit_s=60 * (1 + n % 5))
        for n in jobs
    ]
    running = task(1, asks(1), user=user, name="x", command="x.py#1", time_limit_s=600)
    return picture_of([node("n1", gpus=gpus), node("n2", gpus=2)], waiting, [(running, "n1", (0,))])


requests = st.lists(
    st.tuples(st.integers(1, 2), st.sampled_from([60, 600, None]), st.integers(0, 900)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, max_examples=20)
@given(requests, st.sampled_from([PRIORITY, FIFO, DRF]), st.lists(st.floats(1, 5000), max_size=6))
def test_every_interval_contains_what_is_expected_and_nothing_is_expected_in_the_past(
    asked: list[tuple[int, int | None, int]], policy: Policy, runs_s: list[float]
) -> None:
    waiting = [
        task(n, asks(gpus), time_limit_s=limit_s, eligible_ms=at(later))
        for n, (gpus, limit_s, later) in enumerate(asked, 2)
    ]
    running = task(1, asks(2), time_limit_s=600)
    picture = picture_of([node(gpus=2)], waiting, [(running, "n1", (0, 1))], policy)
    run_times = RunTimes()
    run_times.add_all((Work.of(running), run_s) for run_s in runs_s)
    made = estimates(picture, run_times, policy)
    for each in waiting:
        found = interval(made, each.task_id.job_id)
        assert max(NOW_MS, each.eligible_ms) <= found.earliest_ms <= found.expected_ms <= found.latest_ms


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 30), st.integers(1, 4), st.lists(st.floats(1, 5000), max_size=6))
def test_of_equal_requests_the_one_ahead_is_never_expected_later(
    count: int, gpus: int, runs_s: list[float]
) -> None:
    waiting = [task(n, asks(1), time_limit_s=600) for n in range(2, 2 + count)]
    picture = picture_of([node(gpus=gpus)], waiting, [(task(1, asks(gpus)), "n1", tuple(range(gpus)))])
    run_times = RunTimes()
    run_times.add_all((Work.of(waiting[0]), run_s) for run_s in runs_s)
    made = estimates(picture, run_times)
    found = [interval(made, each.task_id.job_id) for each in waiting]
    for ends in ("earliest_ms", "expected_ms", "latest_ms"):
        moments = [getattr(each, ends) for each in found]
        assert moments == sorted(moments)


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 12), st.lists(st.floats(1, 600), max_size=6))
def test_renaming_a_user_changes_no_estimate(count: int, runs_s: list[float]) -> None:
    made = []
    for user in ("ada", "zoe"):
        run_times = RunTimes()
        work = Work(user, "x", "x.py#1", 1000, 600)
        run_times.add_all((work, run_s) for run_s in runs_s)
        made.append(estimates(crowd(range(2, 2 + count), 3, user), run_times).jobs)
    assert made[0] == made[1]


def test_starts_beyond_their_intervals_widen_the_next_ones() -> None:
    residuals, found = Residuals(), StartInterval(at(100), at(200), at(300), "")
    assert residuals.widening == Widening()
    for _ in range(30):
        residuals.add(NOW_MS, found, Widening(), at(600))
    assert residuals.widening.far == pytest.approx(2.0)
    assert residuals.widening.near == pytest.approx(1 / 0.9)
    running = runs(1)
    picture = picture_of([node(gpus=1)], [runs(2)], [(running, "n1", (0,))])
    narrow = estimate(take(picture, PRIORITY), known((running, 600.0)))
    wide = estimate(take(picture, PRIORITY), known((running, 600.0)), Widening(0.5, 2.0))
    assert interval(wide, 2).latest_ms > interval(narrow, 2).latest_ms
    assert interval(wide, 2).earliest_ms < interval(narrow, 2).earliest_ms
    assert interval(wide, 2).expected_ms == interval(narrow, 2).expected_ms


def test_estimate_reads_nothing_but_its_snapshot() -> None:
    running = runs(1)
    picture = picture_of([node(gpus=1)], [runs(2)], [(running, "n1", (0,))])
    snapshot = take(picture, PRIORITY)
    before = estimate(snapshot, known((running, 100.0))).jobs
    picture.remove_waiting(TaskId(2, 0))
    picture.release(TaskId(1, 0))
    picture.add_waiting(replace(runs(9), time_limit_s=5))
    assert estimate(snapshot, known((running, 100.0))).jobs == before


def test_gang_for_which_the_nodes_are_too_few_is_tried_once_in_each_scenario(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[int] = []

    def counting(nodes: TrialNodes, head: Unit, kind: KindFacts, now: float) -> Reserved | None:
        searched.append(head.job_id)
        return reserve(nodes, head, kind, now)

    monkeypatch.setattr(scenario, "reserve", counting)
    behind = [task(number, asks(1), time_limit_s=100) for number in range(2, 12)]
    running = [
        (runs(20, 2, time_limit_s=HOUR_S), "n1", (0, 1)),
        (runs(21, 2, time_limit_s=100), "n2", (0, 1)),
    ]
    picture = picture_of(
        [node("n1", gpus=2), node("n2", gpus=2)], [*gang(1, [asks(2)] * 3), *behind], running
    )
    made = estimates(picture, policy=FIFO)
    assert all(made.jobs[each.task_id.job_id].interval for each in behind)
    assert searched.count(1) == SCENARIOS


def test_unit_that_may_not_start_takes_nothing_of_what_a_reservation_leaves() -> None:
    kept = Reserved(frozenset((0,)), 0.0, {0: ([4000], 2)})
    kind = KindFacts(((0, 1000),), 1, False, [[1000]], b"\1", (), 0.0)
    assert kept.has_room(kind, 0, 2)
    assert not kept.has_room(kind, 0, 3), "it leaves two GPUs"
    assert not kept.has_room(kind, 1, 1)
    kept.take(kind, 0, 2)
    assert kept.extra == {0: ([2000], 0)}
