"""Graphs of jobs, held, released, edited and cancelled at random, under leaders that come and go."""

import asyncio
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from tests.control.control_story import FakeNode, Leader, now_ms, play, says, spec
from tgpu.domain.job import Exit, Job, JobSpec
from tgpu.domain.lifecycle import Cause
from tgpu.domain.needs import SINGLETON, Need, NeedKind
from tgpu.domain.timing import Timing
from tgpu.protocol.messages import Phase
from tgpu.store.memory import MemoryStore
from tgpu.store.needs_port import ChangedMeanwhileError, NotWaitingError

JOBS = 60
KINDS = (NeedKind.OK, NeedKind.OK, NeedKind.NOT_OK, NeedKind.ANY)


def a_job(random: Random, before: int) -> JobSpec:
    chosen = random.sample(range(1, before + 1), min(before, random.choice((0, 1, 1, 2, 4))))
    needs = [Need(random.choice(KINDS), on) for on in chosen]
    needs += [SINGLETON] if random.random() < 0.1 else []
    held = Timing(held_by="ann") if random.random() < 0.2 else None
    return spec(gpus=random.choice((0, 1, 2)), name=random.choice("xyz"), needs=tuple(needs), timing=held)


async def users(store: MemoryStore, random: Random) -> None:
    for before in range(JOBS):
        await store.submit([a_job(random, before)], now_ms())
        await asyncio.sleep(random.choice((0, 0, 0.01, 0.5)))
        some = [random.randint(1, before + 1) for _ in range(2)]
        match random.randrange(6):
            case 0:
                await store.hold(some, "ann", now_ms())
            case 1:
                await store.release(some, "ann", now_ms())
            case 2:
                await store.request_cancel(some[:1], "ann", now_ms())
            case 3:
                await edit(store, some[0], random)
    await asyncio.sleep(20)
    await store.release(range(1, JOBS + 1), "ann", now_ms())


async def edit(store: MemoryStore, job_id: int, random: Random) -> None:
    job = await store.job(job_id)
    assert job is not None
    group = job.spec.groups[0]
    other = replace(group, request=replace(group.request, gpu_milli=1000 * random.randrange(3)))
    with suppress(NotWaitingError, ChangedMeanwhileError):
        await store.edit(job, replace(job.spec, groups=(other,)), "ann", now_ms(), {})


async def runs(node: FakeNode, random: Random, live: dict[str, Exit | None]) -> None:
    """Whatever it is told to run ends after a while, well or not, and says so until it is heard."""
    while True:
        await asyncio.sleep(0.2)
        for attempt in node.launched():
            live.setdefault(attempt, None)
        for attempt, how in list(live.items()):
            if how is None and (attempt in node.stopped() or random.random() < 0.2):
                cause = Cause.CANCELLED if attempt in node.stopped() else Cause.EXITED
                code = None if cause is Cause.CANCELLED else random.choice((0, 0, 1))
                live[attempt] = Exit(cause, code, started_ms=1000, ended_ms=now_ms())
                node.reports(says(attempt, Phase.ENDED, live[attempt]))
        node.beats()


async def check(store: MemoryStore, job: Job, began: dict[int, int], ended: dict[int, int]) -> None:
    """Nobody began before what it needs was over as it had to be."""
    assert job.status.is_final, job
    for need in job.spec.needs:
        if not need.on or job.job_id not in began:
            continue
        other = await store.job(need.on)
        assert other is not None
        assert need.kind.is_met_by(other.status), (job, other)
        assert ended[need.on] < began[job.job_id]
    if job.cause is Cause.DEPENDENCY_FAILED:
        others = [(need, await store.job(need.on)) for need in job.spec.needs if need.on]
        assert any(other and not need.kind.is_met_by(other.status) for need, other in others)


@pytest.mark.parametrize("seed", range(12))
def test_nobody_starts_before_its_needs_are_met_and_everybody_ends(seed: int) -> None:
    async def told() -> None:
        random, store, live = Random(seed), MemoryStore("c"), dict[str, Exit | None]()
        asking = asyncio.create_task(users(store, random))
        for _ in range(4):
            leader = Leader(store)
            known = [says(attempt) for attempt, how in live.items() if how is None]
            over = [says(attempt, Phase.ENDED, how) for attempt, how in live.items() if how is not None]
            node = await leader.node("n1", *known, *over)
            running = asyncio.create_task(runs(node, random, live))
            await asyncio.sleep(random.choice((3, 12, 25)))
            if asking.done() and not (await store.load()).tasks:
                break
            leader.running.cancel()
            running.cancel()
            node.close()
        else:
            leader = Leader(store)
            over = [says(attempt, Phase.ENDED, how) for attempt, how in live.items() if how is not None]
            known = [says(attempt) for attempt, how in live.items() if how is None]
            node = await leader.node("n1", *known, *over)
            running = asyncio.create_task(runs(node, random, live))
            await asking
            await asyncio.sleep(120)
        assert leader.watch.drift == 0
        assert await store.recount(await store.claim()) == []
        events = await store.events(limit=100_000)
        began = {event.job_id: event.seq for event in reversed(events) if event.kind == "assigned"}
        ended = {
            event.job_id: event.seq for event in events if event.kind in ("succeeded", "failed", "cancelled")
        }
        for job_id in range(1, JOBS + 1):
            job = await store.job(job_id)
            assert job is not None
            await check(store, job, began, ended)

    play(told())
