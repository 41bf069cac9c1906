"""What is counted when tasks start and leave: those that run, and GPU-hours."""

import pytest

from tests.store.ledger_story import (
    AUGUST,
    JULY,
    LOW,
    QUEUE,
    check_exact,
    close,
    counts,
    ended,
    finish,
    given,
    gpu_job,
    gpus,
    hours,
    lost,
    returned,
    run,
    start,
    submit,
    tenant,
)
from tests.store.store_story import ROOT, nth, setting
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.quota import Admission, JobLimits, Limits, Period
from tgpu.store.lost import AttemptGone, Superseded
from tgpu.store.port import Assigned, Batch, DeposedError, Store


async def test_no_more_tasks_run_than_may_at_any_level(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(running=2))
    await tenant(store, "lab/ann", job_limits=JobLimits(running=1))
    epoch = await store.claim()
    await submit(store, *[gpu_job(1, "lab/ann")] * 2, *[gpu_job(1, "lab")] * 2)
    assert await start(store, epoch, *map(given, (1, 2, 3, 4))) == [2, 4]
    assert (await counts(store), await counts(store, "lab/ann")) == ((2, 2), (1, 1))
    receipt = await store.commit(epoch, Batch(20, ended=[ended(1, 20)], assigned=[given(2), given(4)]))
    assert receipt.refused == [given(4)], "the place that is left goes to the first"
    await check_exact(store)


async def test_whatever_way_a_task_leaves_its_place_is_free_again(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(running=1))
    epoch = await store.claim()
    await submit(store, gpu_job(), gpu_job())
    leaving = (Happening.REQUEUED, Happening.PREEMPTED, Happening.FAILED)
    for number, happening in enumerate(leaving, 1):
        assert await start(store, epoch, given(1, number=number), given(2)) == [2]
        batch = Batch(20, ended=[ended(1, 20, happening, number)])
        assert not (await store.commit(epoch, batch)).refused
        await check_exact(store)
    assert await start(store, epoch, given(2)) == []
    assert not (await store.commit(epoch, Batch(30, lost=[lost(2, 30)]))).refused
    assert await counts(store) == (0, 1)
    await close(store, epoch, 2)
    assert (await counts(store), await gpus(store)) == ((0, 0), (0, 0))


async def test_gpu_hours_are_reserved_at_the_start_and_settled_at_the_end(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(gpu_ms=5000, period=Period.EVER))
    await tenant(store, "lab/ann")
    epoch = await store.claim()
    await submit(store, gpu_job(2, "lab/ann"), gpu_job(1), gpu_job(0), gpu_job(1))
    reserving = (given(1, reserve_gpu_ms=4000), given(2, reserve_gpu_ms=2000), given(3), given(4))
    assert await start(store, epoch, *reserving) == [2]
    assert (await hours(store), await hours(store, "lab/ann")) == (4000, 4000)
    assert await store.reserved_gpu_ms() == {"lab/ann": 4000}
    await run(store, epoch, 1, 1000)
    await finish(store, epoch, 1, 1777)
    assert (await hours(store), await hours(store, "lab/ann")) == (1554, 1554)
    assert await store.reserved_gpu_ms() == {}
    assert await start(store, epoch, given(2, reserve_gpu_ms=3446)) == []
    await finish(store, epoch, 2, 5000)
    assert await hours(store) == 1554, "it never began"
    await finish(store, epoch, 4, 9000)
    await check_exact(store)


async def test_every_attempt_counts_for_itself(store: Store) -> None:
    await tenant(store)
    epoch = await store.claim()
    await submit(store, gpu_job(1))
    await start(store, epoch, given(1, reserve_gpu_ms=9000))
    await run(store, epoch, 1, 1000)
    await finish(store, epoch, 1, 3000, Happening.PREEMPTED)
    assert await hours(store) == 2000
    await start(store, epoch, given(1, reserve_gpu_ms=9000, number=2))
    assert await hours(store) == 11_000
    await run(store, epoch, 1, 5000, number=2)
    assert not (await store.commit(epoch, Batch(6000, ended=[ended(1, 6000, number=2)]))).refused
    assert await hours(store) == 3000


async def test_only_what_ran_in_this_period_counts(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(gpu_ms=10**12, period=Period.MONTH))
    epoch = await store.claim()
    await submit(store, gpu_job(1), gpu_job(1))
    assert [each.tenant_id for each in await store.roll_periods(epoch, JULY + 5)] == ["default", "lab"]
    await start(store, epoch, given(1, reserve_gpu_ms=70_000), given(2, reserve_gpu_ms=50_000))
    await run(store, epoch, 1, AUGUST - 10_000)
    await finish(store, epoch, 2, AUGUST - 10_000)
    assert await store.roll_periods(epoch, AUGUST - 1) == []
    assert await hours(store) == 70_000
    rolled = await store.roll_periods(epoch, AUGUST)
    assert rolled == await store.tenants()
    assert [each.job_use.period_from_ms for each in rolled] == [AUGUST, AUGUST]
    assert await hours(store) == 70_000, "what runs has reserved it still"
    await finish(store, epoch, 1, AUGUST + 3000)
    assert await hours(store) == 3000
    assert await store.roll_periods(epoch, AUGUST + 10) == []


async def test_each_level_counts_in_its_own_period(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(period=Period.DAY))
    await tenant(store, "lab/ann", job_limits=JobLimits(period=Period.EVER))
    epoch = await store.claim()
    await submit(store, gpu_job(1, "lab/ann"))
    await store.roll_periods(epoch, JULY)
    await start(store, epoch, given(1, reserve_gpu_ms=100))
    await run(store, epoch, 1, AUGUST - 4000)
    await store.roll_periods(epoch, AUGUST)
    await finish(store, epoch, 1, AUGUST + 1000)
    assert (await hours(store), await hours(store, "lab/ann")) == (1000, 5000)


async def test_only_the_leader_looks_after_the_ledger(store: Store) -> None:
    epoch = await store.claim()
    await store.claim()
    with pytest.raises(DeposedError):
        await store.roll_periods(epoch, AUGUST)
    with pytest.raises(DeposedError):
        await store.recount(epoch)


async def test_an_attempt_that_returns_is_counted_once_and_whole(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(running=1, gpu_ms=100_000, period=Period.EVER))
    epoch = await store.claim()
    await submit(store, gpu_job(1), gpu_job(1))
    await start(store, epoch, given(1, reserve_gpu_ms=65_000))
    await run(store, epoch, 1, 1000)
    await store.commit(epoch, Batch(5000, lost=[lost(1, 5000)]))
    assert (await hours(store), await counts(store)) == (4000, (0, 2))
    await start(store, epoch, given(2))
    await store.commit(epoch, Batch(7000, returned=[returned(1, 1000, 65_000)]))
    assert await counts(store) == (2, 0), "it runs, whether or not it may"
    assert await hours(store) == 65_000, "reserved anew"
    await finish(store, epoch, 1, 9000)
    assert await hours(store) == 8000
    await check_exact(store)


async def test_an_attempt_that_returns_takes_the_place_of_another(store: Store) -> None:
    await tenant(store)
    epoch = await store.claim()
    await submit(store, gpu_job(1))
    await start(store, epoch, given(1, reserve_gpu_ms=65_000))
    await run(store, epoch, 1, 1000)
    await store.commit(epoch, Batch(5000, lost=[lost(1, 5000)]))
    await start(store, epoch, given(1, reserve_gpu_ms=65_000, number=2))
    assert (await hours(store), await counts(store)) == (69_000, (1, 0))
    batch = Batch(8000, returned=[returned(1, 1000, 33)], superseded=[Superseded(nth(2))])
    assert not (await store.commit(epoch, batch)).refused
    assert (await hours(store), await counts(store)) == (65_000, (1, 0))
    await finish(store, epoch, 1, 9000)
    assert (await hours(store), await counts(store)) == (8000, (0, 0))
    await store.commit(epoch, Batch(9500, gone=[AttemptGone(nth(2), Exit(Cause.SUPERSEDED, ended_ms=9400))]))
    assert await hours(store) == 8000
    await check_exact(store)


async def test_what_was_counted_before_another_period_is_not_taken_off_when_a_lost_attempt_returns(
    store: Store,
) -> None:
    await tenant(store, job_limits=JobLimits(gpu_ms=100_000, period=Period.EVER))
    epoch = await store.claim()
    await submit(store, gpu_job(1))
    await start(store, epoch, given(1, reserve_gpu_ms=65_000))
    await run(store, epoch, 1, 1000)
    await store.commit(epoch, Batch(5000, lost=[lost(1, 5000)]))
    by_the_week = setting(job_limits=JobLimits(gpu_ms=100_000, period=Period.WEEK))
    await store.update_tenant("lab", by_the_week, ROOT, 6000)
    assert await hours(store) == 0
    await store.commit(epoch, Batch(7000, returned=[returned(1, 1000, 65_000)]))
    assert await hours(store) == 65_000
    await finish(store, epoch, 1, 9000)
    assert await hours(store) == 3000, "since it is counted by the week"
    await check_exact(store)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_lost_attempt_that_ended_its_task_after_all_is_counted_once(
    store: Store, *, replaced: bool
) -> None:
    await tenant(store)
    epoch = await store.claim()
    await submit(store, gpu_job(1))
    await start(store, epoch, given(1, reserve_gpu_ms=65_000))
    await run(store, epoch, 1, 1000)
    await store.commit(epoch, Batch(5000, lost=[lost(1, 5000)]))
    if replaced:
        await start(store, epoch, given(1, reserve_gpu_ms=65_000, number=2))
    await finish(store, epoch, 1, 7000)
    assert (await hours(store), await counts(store), await gpus(store)) == (6000, (0, 0), (0, 0))
    await check_exact(store)


async def test_what_returns_to_the_burst_counts_there_again(store: Store) -> None:
    await tenant(store, limits=Limits(gpu_milli=2000), terms=QUEUE)
    epoch = await store.claim()
    await submit(store, gpu_job(2), gpu_job(1), gpu_job(1), gpu_job(0))
    assert await start(store, epoch, given(1, Admission.NOW), given(2, Admission.BURST)) == []
    await store.commit(epoch, Batch(20, lost=[lost(2, 20)]))
    assert await gpus(store) == (2000, 0)
    assert await start(store, epoch, given(3, Admission.BURST)) == []
    # Together with the admission of something that asks nothing of the GPUs that are full.
    wanted = given(4, Admission.NOW)
    batch = Batch(30, returned=[returned(2, 5)], assigned=[wanted])
    assert not (await store.commit(epoch, batch)).refused
    assert await gpus(store) == (2000, 2000), "beyond what the burst has room for: it runs"
    await check_exact(store)
    assert not (await store.commit(epoch, Batch(40, ended=[ended(2, 40), ended(3, 40)]))).refused
    assert await gpus(store) == (2000, 0)


async def test_one_commit_ends_and_admits(store: Store) -> None:
    """What is freed by it can be had in it, by whoever is first."""
    await tenant(store, limits=Limits(gpu_milli=3000), terms=QUEUE)
    await tenant(store, "lab/ann", limits=Limits(gpu_milli=2000))
    epoch = await store.claim()
    await submit(store, *[gpu_job(1, "lab/ann")] * 4, *[gpu_job(1)] * 2)
    wanted = [given(job_id, Admission.NOW) for job_id in (1, 2, 3, 5, 6)]
    assert await start(store, epoch, *wanted) == [3, 6]
    wanted = [given(job_id, Admission.NOW) for job_id in (6, 3, 4)]
    receipt = await store.commit(epoch, Batch(20, ended=[ended(1, 20)], assigned=wanted))
    assert receipt.refused == wanted[1:]
    assert (await gpus(store), await gpus(store, "lab/ann")) == ((3000, 0), (1000, 0))
    await check_exact(store)


async def test_of_two_assignments_of_one_task_the_first_that_holds_is_taken(store: Store) -> None:
    await tenant(store, job_limits=JobLimits(running=1))
    epoch = await store.claim()
    await submit(store, gpu_job(), gpu_job())
    wrong, right, again = given(1, number=2), given(1), Assigned(nth(1), "n2", ())
    receipt = await store.commit(epoch, Batch(10, assigned=[wrong, right, again, given(2)]))
    assert receipt.refused == [wrong, again, given(2)]
    await check_exact(store)


async def test_a_new_limit_holds_from_then_on(store: Store) -> None:
    await tenant(store)
    epoch = await store.claim()
    await submit(store, *[gpu_job()] * 3)
    await start(store, epoch, given(1), given(2))
    await store.update_tenant("lab", setting(job_limits=JobLimits(running=1)), ROOT, 1)
    assert await start(store, epoch, given(3)) == [3]
    await finish(store, epoch, 1)
    assert await start(store, epoch, given(3)) == [3]
    await finish(store, epoch, 2)
    assert await start(store, epoch, given(3)) == []


async def test_the_loop_is_told_what_is_held_and_how_much_time_is_left(store: Store) -> None:
    await tenant(store, limits=Limits(gpu_milli=1000), job_limits=JobLimits(gpu_ms=9000))
    epoch = await store.claim()
    await submit(store, gpu_job(1))
    await submit(store, gpu_job(0.5, priority_class=LOW), gpu_job(0.25, priority_class=LOW))
    await start(store, epoch, given(1, reserve_gpu_ms=600), given(2, Admission.BURST, reserve_gpu_ms=300))
    world = await store.load()
    assert [(task.held, task.burst) for task in world.tasks] == [(False, False), (True, True), (True, False)]
    assert [each.job_use.gpu_ms for each in world.tenants] == [0, 900]
    assert all(each.used.gpu_milli == each.job_use.running == 0 for each in world.tenants)
    fresh = (await store.changes(0)).submitted
    assert [(task.held, task.burst) for task in fresh] == [(True, False)]
