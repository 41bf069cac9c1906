"""Plan previews of the leader against what then happens: jobs are previewed, submitted, and looked up."""

import asyncio
from random import Random

import pytest

from tests.control.control_story import Leader, capacity, now_ms, play, spec
from tests.control.test_answers import answers_of
from tests.control.test_series import array
from tgpu.api.plan_preview import hypothetical_job
from tgpu.domain.access import Actor
from tgpu.domain.job import Gang, Group, JobSpec, Request
from tgpu.domain.preview import StartPreview, Starts
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Limits, OverQuota
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
