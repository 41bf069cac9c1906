"""When a quota has room for one who waits: those before it are counted, each with its time limit."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.core_story import DRF, PRIORITY, asks, at, carry_out, node, picture_of, task
from tests.core.explain_story import held, lab, why
from tgpu.core.picture import Picture, Placed
from tgpu.core.planner import plan
from tgpu.domain.job import TaskBrief
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import JobLimits, JobUse, Limits, Period
from tgpu.domain.tenant import Tenant

HOUR = 1000 * 3600
PROPERTY = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def told(picture: Picture, job_id: int) -> tuple[int | None, str | None]:
    answer = why(picture, job_id)
    return answer.starts_at_ms, answer.estimate


def of_vision(job_id: int, gpus: float, minutes: int, *args: PriorityClass) -> TaskBrief:
    return held(job_id, gpus, *args, time_limit_s=60 * minutes)


@pytest.mark.parametrize(
    ("limits", "job_limits"), [(Limits(gpu_milli=3000), JobLimits()), (Limits(), JobLimits(running=1))]
)
def test_each_waits_for_those_before_it(limits: Limits, job_limits: JobLimits) -> None:
    """Job 17 has all of it for an hour."""
    line = [of_vision(1, 3, 10), of_vision(2, 3, 20), of_vision(3, 3, 30)]
    picture = lab(*line, limits=limits, job_limits=job_limits)
    assert told(picture, 1)[0] == at(3600)
    assert "at the latest" in str(told(picture, 1)[1])
    assert told(picture, 2) == (
        at(4200),
        "its quota has room ≈ 14:56 UTC, if what runs and the task before it take all their time",
    )
    assert told(picture, 3) == (
        at(5400),
        "its quota has room ≈ 15:16 UTC, if what runs and the 2 tasks before it take all their time",
    )


def test_one_of_a_higher_class_comes_before() -> None:
    picture = lab(of_vision(1, 3, 10), of_vision(2, 3, 20, PriorityClass.HIGH), limits=Limits(gpu_milli=3000))
    assert told(picture, 2)[0] == at(3600)
    assert told(picture, 1)[0] == at(4800)


def test_who_could_never_start_is_not_waited_for() -> None:
    picture = lab(of_vision(1, 4, 10), of_vision(2, 3, 20), limits=Limits(gpu_milli=3000))
    assert told(picture, 1) == (None, None)
    assert told(picture, 2)[0] == at(3600)


def test_where_turns_tell_who_comes_first_no_moment_is_told() -> None:
    others = of_vision(1, 3, 10), held(2, 3, tenant_id="lab/audio", time_limit_s=600)
    picture = lab(*others, limits=Limits(gpu_milli=3000))
    assert told(picture, 1) == (None, None)
    assert told(picture, 2) == (None, None)


def test_the_moment_is_when_the_last_of_several_limits_has_room() -> None:
    """Jobs 17 and 18 end one after the other, the one with the CPU last."""
    first = task(17, asks(gpus=3, cpus=1), tenant_id="lab", time_limit_s=3600)
    last = task(18, asks(cpus=5), tenant_id="lab", time_limit_s=7200)
    running = [(first, "n1", (0, 1, 2)), (last, "n1", ())]
    waiting = task(1, asks(gpus=3, cpus=4), tenant_id="lab", held=True)
    picture = picture_of([node(cpus=64, gpus=8)], [waiting], running, DRF)
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=3000, cpu_milli=6000)))
    assert told(picture, 1)[0] == at(7200)


def test_what_is_kept_for_a_reservation_is_not_told_as_admitted() -> None:
    """Job 1 is the first, and waits for a machine; of its tenant's four GPUs one is kept for it."""
    of_lab = task(17, asks(gpus=2), tenant_id="lab", user="ann", time_limit_s=3600)
    of_others = task(18, asks(gpus=4), tenant_id="other", user="bob", time_limit_s=7200)
    waiting = [held(1, 3, tenant_id="lab", time_limit_s=600), held(2, 2, tenant_id="lab")]
    picture = picture_of(
        [node(gpus=6)], waiting, [(of_lab, "n1", (0, 1)), (of_others, "n1", (2, 3, 4, 5))], PRIORITY
    )
    picture.set_tenant(Tenant("lab", limits=Limits(gpu_milli=5000)))
    carry_out(picture, plan(picture, PRIORITY))
    assert "has a reservation" in str(told(picture, 1)[1])
    reason = next(each for each in why(picture, 2).reasons if each.code == "quota")
    assert reason.text == (
        "held by the quota of tenant lab: 2 of 5 GPUs are admitted, 3 are kept for job 1, and it needs 2; "
        "job 17 of ann has 2"
    )
    assert reason.data["used"] == 2.0
    assert reason.data["job_ids"] == [17, 1]
    assert told(picture, 2)[0] == at(3600)


def test_who_finds_the_hours_of_the_next_period_taken_by_those_before_it_is_told_no_moment() -> None:
    line = [task(n, asks(1), tenant_id="lab", held=True, time_limit_s=5 * 3600 - 60) for n in (1, 2)]
    most, use = JobLimits(gpu_ms=9 * HOUR, period=Period.DAY), JobUse(gpu_ms=9 * HOUR + 3000 * 60)
    picture = lab(*line, limits=Limits(), job_limits=most, job_use=use)
    assert told(picture, 1)[1] == "when the next period of GPU-hours begins: 1970-01-13 00:00 UTC"
    assert told(picture, 2) == (None, None)


def starts_of(picture: Picture) -> dict[int, int]:
    """When each job really starts, if all take all their time."""
    found: dict[int, int] = {}
    while picture.placed or picture.waiting:
        carry_out(picture, plan(picture, picture.policy))
        for placed in picture.placed.values():
            if placed.started_ms is None:
                picture.started(placed, picture.now_ms)
                found[placed.task.task_id.job_id] = picture.now_ms
        if not picture.placed:
            break
        picture.now_ms = min(map(end_of, picture.placed.values()))
        for placed in list(picture.placed.values()):
            if end_of(placed) <= picture.now_ms:
                picture.release(placed.task.task_id)
    return found


def end_of(placed: Placed) -> int:
    assert placed.started_ms is not None
    assert placed.task.time_limit_s is not None
    return placed.started_ms + 1000 * placed.task.time_limit_s


JOBS = st.lists(
    st.tuples(
        st.integers(0, 5), st.integers(1, 40), st.sampled_from([PriorityClass.DEFAULT, PriorityClass.HIGH])
    ),
    min_size=1,
    max_size=6,
)


@PROPERTY
@given(JOBS, st.integers(3, 5), st.integers(1, 3), st.sampled_from(["gpus", "running", "both"]))
def test_who_is_told_a_moment_starts_then(
    jobs: list[tuple[int, int, PriorityClass]], gpus: int, running: int, limited: str
) -> None:
    """If all take all their time, and there are machines for all of them. Where several things are limited,
    some may pass others who lack another thing, and so start before."""
    waiting = [of_vision(job_id, *job) for job_id, job in enumerate(jobs, 1)]
    limits = Limits() if limited == "running" else Limits(gpu_milli=1000 * gpus)
    job_limits = JobLimits() if limited == "gpus" else JobLimits(running=running)
    picture = lab(*waiting, gpus=32, limits=limits, job_limits=job_limits)
    moments = {job_id: told(picture, job_id)[0] for job_id in range(1, len(jobs) + 1)}
    starts = starts_of(picture)
    assert {job_id for job_id, at_ms in moments.items() if at_ms is not None} == starts.keys()
    for job_id, starts_ms in starts.items():
        told_ms = moments[job_id]
        assert told_ms is not None
        assert told_ms == starts_ms if limited != "both" else told_ms >= starts_ms
