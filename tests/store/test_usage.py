"""What attempts were given and used: one row each, exact sums, whatever became of the attempt."""

from dataclasses import replace

import pytest

from tests.store.store_story import a_job, a_node, assign, end, nth, running
from tgpu.domain.job import Exit, Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.priority import PriorityClass
from tgpu.domain.usage import Figures, Usage
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Superseded
from tgpu.store.port import AttemptEnded, Batch, Started, Store
from tgpu.store.usage_port import GroupBy, ReportFilter


def spent(number: int = 1, **changes: object) -> Usage:
    """What job 1 of the stories comes to."""
    usage = Usage(
        nth(number), "ann", "default", PriorityClass.DEFAULT, "n1", "default", "A100",
        started_ms=20, ended_ms=90,
        wait_ms=10, cpu_milli=500, memory_mib=64, gpu_milli=1000, used_cpu_ms=5, peak_memory_mib=6,
        used_gpu_ms=None, cause=Cause.EXITED,
    )  # fmt: skip
    return replace(usage, **changes)  # type: ignore[arg-type]


async def with_a_node(store: Store) -> int:
    epoch = await running(store)
    await store.commit(epoch, Batch(26, nodes=[a_node()]))
    return epoch


async def test_the_commit_that_ends_an_attempt_writes_what_it_was_given_and_used(store: Store) -> None:
    epoch = await with_a_node(store)
    assert await store.usage(1) == []
    ending = end(Happening.SUCCEEDED)
    ending = replace(ending, exit=replace(ending.exit, gpu_ms=44))
    await store.commit(epoch, Batch(100, ended=[ending]))
    assert await store.usage(1) == [spent(used_gpu_ms=44)]
    assert (await store.commit(epoch, Batch(110, ended=[ending]))).refused == [ending]
    assert await store.usage(1) == [spent(used_gpu_ms=44)], "once"


async def test_what_a_preempted_attempt_did_is_lost_and_the_next_one_waited_since_its_end(
    store: Store,
) -> None:
    epoch = await with_a_node(store)
    await store.commit(epoch, Batch(100, ended=[end(Happening.PREEMPTED, Cause.PREEMPTED, None)]))
    await store.commit(epoch, Batch(150, assigned=[assign(number=2)]))
    await store.commit(epoch, Batch(170, started=[Started(nth(2), 160)]))
    again = AttemptEnded(nth(2), Exit(Cause.EXITED, 0, started_ms=160, ended_ms=300), Happening.SUCCEEDED)
    await store.commit(epoch, Batch(310, ended=[again]))
    first, second = await store.usage(1)
    assert first == spent(cause=Cause.PREEMPTED, lost_ms=70)
    assert second == spent(2, started_ms=160, ended_ms=300, wait_ms=70, used_cpu_ms=0, peak_memory_mib=0)


@pytest.mark.parametrize(("saved_ms", "lost_ms"), [(70, 20), (5, 70), (95, 0), (None, 70)])
async def test_what_came_before_the_last_save_is_not_lost(
    store: Store, saved_ms: int | None, lost_ms: int
) -> None:
    """An attempt before may have made it, and a node's clock may be wrong."""
    epoch = await with_a_node(store)
    ending = end(Happening.PREEMPTED, Cause.PREEMPTED, None)
    ending = replace(ending, exit=replace(ending.exit, checkpoint_ms=saved_ms))
    await store.commit(epoch, Batch(100, ended=[ending]))
    assert await store.usage(1) == [spent(cause=Cause.PREEMPTED, lost_ms=lost_ms)]


async def test_what_an_attempt_did_that_ended_its_task_is_not_lost_saved_or_not(store: Store) -> None:
    epoch = await with_a_node(store)
    ending = end(Happening.FAILED, exit_code=1)
    await store.commit(
        epoch, Batch(100, ended=[replace(ending, exit=replace(ending.exit, checkpoint_ms=30))])
    )
    assert await store.usage(1) == [spent()]


async def test_an_attempt_that_never_ran_has_waited_until_its_end_and_used_nothing(store: Store) -> None:
    epoch = await store.claim()
    await store.submit([a_job()], 10)
    await store.commit(epoch, Batch(15, nodes=[a_node()], assigned=[assign()]))
    failed = AttemptEnded(nth(1), Exit(Cause.COULD_NOT_START, detail="no such user"), Happening.FAILED)
    await store.commit(epoch, Batch(40, ended=[failed]))
    (usage,) = await store.usage(1)
    assert (usage.started_ms, usage.ended_ms, usage.run_ms, usage.wait_ms) == (40, 40, 0, 30)
    assert usage.cause is Cause.COULD_NOT_START


async def test_a_lost_attempt_counts_until_it_returns_and_again_when_it_ends(store: Store) -> None:
    epoch = await with_a_node(store)
    gone_silent = Exit(Cause.NODE_LOST, started_ms=20, ended_ms=200)
    await store.commit(epoch, Batch(200, lost=[AttemptLost(nth(1), gone_silent, requeue=True)]))
    assert await store.usage(1) == [
        spent(ended_ms=200, used_cpu_ms=None, peak_memory_mib=None, cause=Cause.NODE_LOST, lost_ms=180)
    ]
    await store.commit(epoch, Batch(210, returned=[AttemptReturned(nth(1), 20)]))
    assert await store.usage(1) == []
    await store.commit(epoch, Batch(400, ended=[end(Happening.SUCCEEDED)]))
    assert await store.usage(1) == [spent()]


async def test_what_is_known_when_a_lost_attempt_is_gone_takes_the_place_of_what_was_assumed(
    store: Store,
) -> None:
    epoch = await with_a_node(store)
    gone_silent = Exit(Cause.NODE_LOST, started_ms=20, ended_ms=200)
    await store.commit(epoch, Batch(200, lost=[AttemptLost(nth(1), gone_silent, requeue=True)]))
    untold = Exit(Cause.NODE_LOST, detail="it is not there any more", ended_ms=900)
    told = Exit(Cause.SUPERSEDED, started_ms=20, ended_ms=250, cpu_ms=7, peak_memory_mib=8)
    await store.commit(epoch, Batch(220, assigned=[assign(number=2)]))
    await store.commit(epoch, Batch(300, gone=[AttemptGone(nth(1), told)]))
    assert await store.usage(1) == [
        spent(ended_ms=250, used_cpu_ms=7, peak_memory_mib=8, cause=Cause.SUPERSEDED, lost_ms=230)
    ]
    await store.commit(epoch, Batch(310, lost=[AttemptLost(nth(2), gone_silent, requeue=True)]))
    before = await store.usage(1)
    await store.commit(epoch, Batch(320, gone=[AttemptGone(nth(2), untold)]))
    assert await store.usage(1) == before, "nobody knows better"


async def test_the_time_of_a_superseded_attempt_is_lost(store: Store) -> None:
    epoch = await with_a_node(store)
    gone_silent = Exit(Cause.NODE_LOST, started_ms=20, ended_ms=200)
    await store.commit(epoch, Batch(200, lost=[AttemptLost(nth(1), gone_silent, requeue=True)]))
    await store.commit(epoch, Batch(220, assigned=[assign(number=2)]))
    await store.commit(epoch, Batch(225, started=[Started(nth(2), 222)]))
    await store.commit(
        epoch, Batch(230, returned=[AttemptReturned(nth(1), 20)], superseded=[Superseded(nth(2))])
    )
    over = Exit(Cause.SUPERSEDED, started_ms=222, ended_ms=240, cpu_ms=1, peak_memory_mib=1)
    await store.commit(epoch, Batch(250, gone=[AttemptGone(nth(2), over)]))
    (usage,) = await store.usage(1)
    assert (usage.attempt_id, usage.run_ms, usage.lost_ms, usage.cause) == (nth(2), 18, 18, Cause.SUPERSEDED)


async def test_what_runs_counts_up_to_now(store: Store) -> None:
    await with_a_node(store)
    (row,) = await store.report(ReportFilter(), (GroupBy.CAUSE, GroupBy.GPU_TYPE), 1_020)
    assert row.keys == ("running", "A100")
    assert row.figures == Figures(
        attempts=1,
        jobs=1,
        wait_ms=10,
        longest_wait_ms=10,
        run_ms=1000,
        cpu_ms=500,
        memory_mib_s=64,
        gpu_ms=1000,
    )
    assert await store.report(ReportFilter(until_ms=20), (GroupBy.USER,), 1_020) == []


async def test_gpus_asked_for_by_memory_alone_count_as_the_quota_counts_them(store: Store) -> None:
    epoch = await store.claim()
    spec = a_job()
    (group,) = spec.groups
    request = Request(gpu_memory_mib=1024, user="ann")
    await store.submit([replace(spec, groups=(replace(group, request=request),))], 10)
    await store.commit(epoch, Batch(15, assigned=[assign()]))
    await store.commit(epoch, Batch(100, ended=[end(Happening.SUCCEEDED)]))
    (usage,) = await store.usage(1)
    assert (usage.gpu_milli, usage.gpu_type, usage.pool) == (1000, "", ""), "the node was never heard of"
