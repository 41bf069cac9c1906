"""Plan previews of the leader against what then happens: jobs are previewed, submitted, and looked up."""

import asyncio
from collections.abc import Mapping
from itertools import count, pairwise
from random import Random
from typing import Any

import pytest

from tests.control.control_story import Leader, capacity, now_ms, play, spec
from tests.control.test_answers import answers_of
from tests.control.test_series import array
from tests.control.test_start_estimates import inline
from tgpu.api.plan_preview import hypothetical_job
from tgpu.control import planned_starts, previews, start_estimates
from tgpu.control.answers import NotLeadingError
from tgpu.control.previews import LONGEST_WAIT_S, MOST_WAITING, PAUSE, SLICE_S
from tgpu.core.estimates.snapshot import Snapshot
from tgpu.core.planned_starts import planned_starts as core_planned_starts
from tgpu.core.preview import with_jobs
from tgpu.domain.access import Actor
from tgpu.domain.job import Gang, Group, JobSpec, Request
from tgpu.domain.preview import HypotheticalJob, StartPreview, Starts
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Limits, OverQuota
from tgpu.domain.start_estimate import ExpectedStart
from tgpu.domain.tenant import Tenant, Terms


async def previewed(leader: Leader, job: JobSpec) -> StartPreview:
    tried = await leader.store.try_submit([job])
    (found,) = await answers_of(leader).preview([hypothetical_job(job, tried.jobs[0], now_ms(), 2000)])
    return found


async def places(leader: Leader, job_id: int) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.node_id, each.devices) for each in await leader.store.attempts(job_id)]


def gang(tasks: int, gpus: int) -> JobSpec:
    request = Request(1000, 0, 0, gpus * 1000)
    return JobSpec("ada", (Group(("true",), request, tasks=tasks),), gang=Gang(tasks), time_limit_s=600)


def a_job(chance: Random) -> JobSpec:
    kind = chance.randrange(5)
    if kind == 0:
        return gang(chance.randint(2, 3), chance.randint(1, 2))
    if kind == 1:
        return array(chance.randint(2, 6))
    return spec(
        chance.choice(("ada", "bob")),
        chance.randint(0, 4),
        time_limit_s=chance.choice((None, 60, 3600)),
        tenant_id=chance.choice(("default", "lab", "queued")),
        priority_class=chance.choice((PriorityClass.DEFAULT, PriorityClass.LOW, PriorityClass.HIGH)),
    )


async def a_cluster(chance: Random) -> Leader:
    leader, root = Leader(), Actor("root", "server")
    await leader.store.create_tenant(Tenant("lab", limits=Limits(gpu_milli=64_000)), root, 1)
    queued = Tenant("queued", limits=Limits(gpu_milli=4000), terms=Terms(over_quota=OverQuota.QUEUE))
    await leader.store.create_tenant(queued, root, 1)
    for name in ("n1", "n2", "n3")[: chance.randint(1, 3)]:
        await leader.node(name, has=capacity(gpus=chance.choice((2, 4)), cpus=16))
    for _ in range(chance.randint(0, 8)):
        await leader.submit(a_job(chance))
    return leader


@pytest.mark.parametrize("seed", range(12))
def test_preview_agrees_with_what_then_happens(seed: int) -> None:
    async def story() -> None:
        chance = Random(seed)
        leader = await a_cluster(chance)
        for _ in range(4):
            job = a_job(chance)
            told = await previewed(leader, job)
            before = len(leader.control.picture.waiting)
            (job_id,) = await leader.submit(job)
            happened = await places(leader, job_id)
            assert (told.starts is Starts.NOW) == bool(happened), told
            if happened:
                assert list(told.places) == happened
                assert told.starting_tasks == len(happened)
            elif told.preempts:
                claimed = [claim for each in leader.control.picture.preempts for claim in each.claims]
                mine = [(each.node_id, each.devices) for each in claimed if each.task_id.job_id == job_id]
                assert list(told.places) == mine
            else:
                why = await answers_of(leader).why(job_id)
                assert why is not None
                assert why.starts_at_ms == pytest.approx(told.why.starts_at_ms, abs=1000)
                assert len(leader.control.picture.waiting) > before
            await asyncio.sleep(chance.choice((0.01, 5)))

    play(story())


def test_preview_changes_nothing_that_the_scheduler_knows() -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        await leader.submit(spec(gpus=2), spec(gpus=1))
        picture = leader.control.picture
        before = (picture.version, len(picture.waiting), picture.reservations, await leader.store.last_seq())
        for gpus in range(3):
            await previewed(leader, spec(gpus=gpus))
        after = (picture.version, len(picture.waiting), picture.reservations, await leader.store.last_seq())
        assert before == after

    play(story())


class Steps:
    """Every look at the stopwatch takes longer than a step may; when steps begin is recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began: list[float] = []
        ticks, real = count(), with_jobs

        def begin(*asked: Any) -> Any:
            self.began.append(asyncio.get_running_loop().time())
            return real(*asked)

        monkeypatch.setattr(previews, "perf_counter", lambda: 2 * SLICE_S * next(ticks))
        monkeypatch.setattr(previews, "with_jobs", begin)

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.began)]


async def hypothetical(leader: Leader, *jobs: JobSpec) -> list[HypotheticalJob]:
    tried = await leader.store.try_submit(list(jobs))
    return [hypothetical_job(job, trial, now_ms(), 2000) for job, trial in zip(jobs, tried.jobs, strict=True)]


def test_preview_of_many_jobs_is_made_in_steps_between_which_the_loop_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        jobs = await hypothetical(leader, *(spec(gpus=number % 3) for number in range(5)))
        whole = await answers_of(leader).preview(jobs)
        steps = Steps(monkeypatch)
        made = await answers_of(leader).preview(jobs)
        assert [(each.starts, each.places) for each in made] == [(each.starts, each.places) for each in whole]
        assert len(steps.began) == len(jobs)
        assert min(steps.pauses) >= PAUSE * 2 * SLICE_S

    play(story())


def test_estimate_of_a_preview_counts_as_time_of_previews(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        leader = Leader(estimate_s=2.0)
        estimates = leader.control.estimates
        assert estimates is not None
        estimates.aside = inline
        await leader.node()
        await leader.submit(spec(gpus=2, time_limit_s=600))
        real, asked = estimates.of_trial, []

        async def slow(snapshot: Snapshot) -> tuple[Mapping[int, ExpectedStart], float]:
            asked.append(asyncio.get_running_loop().time())
            return (await real(snapshot))[0], 1.0

        monkeypatch.setattr(estimates, "of_trial", slow)
        waits, answers = await hypothetical(leader, spec(gpus=2)), answers_of(leader)
        for _ in range(3):
            await answers.preview(waits)
        assert min(later - earlier for earlier, later in pairwise(asked)) >= PAUSE

    play(story())


def test_estimate_of_a_preview_ends_when_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        leader = Leader(estimate_s=2.0)
        estimates = leader.control.estimates
        assert estimates is not None
        estimates.aside = inline
        await leader.node()
        await leader.submit(spec(gpus=2, time_limit_s=600))
        monkeypatch.setattr(start_estimates, "MOST_TRIAL_S", -1.0)
        monkeypatch.setattr(start_estimates, "_WORK_S", 0.0)
        (found,) = await answers_of(leader).preview(await hypothetical(leader, spec(gpus=2)))
        assert found.why.start is None

    play(story())


def test_previews_that_would_wait_too_long_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        leader = Leader()
        await leader.node()
        jobs, answers, ticks = await hypothetical(leader, spec()), answers_of(leader), count()
        monkeypatch.setattr(previews, "perf_counter", lambda: float(next(ticks)))
        crowd = [asyncio.create_task(answers.preview(jobs)) for _ in range(3 * MOST_WAITING)]
        await asyncio.sleep(0.001)
        assert sum(each.done() for each in crowd) >= 2 * MOST_WAITING, "the others wait"
        ended = await asyncio.gather(*crowd, return_exceptions=True)
        refused = [each for each in ended if isinstance(each, NotLeadingError)]
        assert "busy with other previews" in str(refused[0])
        assert 1 <= len(ended) - len(refused) <= 1 + LONGEST_WAIT_S / PAUSE
        await answers.preview(jobs)

    play(story())


def test_planned_starts_are_made_once_for_each_version_of_the_cluster_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        leader, made = Leader(), 0
        real = core_planned_starts

        def counted(*asked: Any) -> Any:
            nonlocal made
            made += 1
            return real(*asked)

        monkeypatch.setattr(planned_starts, "planned_starts", counted)
        node = await leader.node()
        await leader.submit(spec(gpus=2, time_limit_s=600), spec(gpus=2, time_limit_s=600))
        answers = answers_of(leader)
        first = await answers.planned_starts()
        assert [start.task_id.job_id for start in first] == [2]
        for _ in range(5):
            node.beats()
            await asyncio.sleep(1)
            assert await answers.planned_starts() is first
        assert made == 1
        await leader.cancel(2)
        await asyncio.sleep(planned_starts.SHORTEST_S)
        assert (await answers.planned_starts(), made) == ([], 2)
        await leader.submit(spec(gpus=2, time_limit_s=600))
        assert await answers.planned_starts() == [], "however often the state changes, they are kept a while"

    play(story())
