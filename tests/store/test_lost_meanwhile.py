"""Attempts that are lost while tenants, their limits and their periods change: GPU-hours are counted once."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.store.ledger_story import (
    AUGUST,
    JULY,
    LOW,
    check_exact,
    close,
    ended,
    given,
    gpu_job,
    hours,
    lost,
    returned,
    run,
    seen,
    start,
    submit,
    tenant,
)
from tests.store.store_story import ROOT, nth, setting
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.quota import Admission, JobLimits, Limits, Period
from tgpu.domain.tenant import Tenant, Terms
from tgpu.store.access_port import TenantInUseError
from tgpu.store.lost import AttemptGone, Superseded
from tgpu.store.port import Batch, Store

RESERVED = 65_000
EVER = JobLimits(gpu_ms=100_000, period=Period.EVER)


async def commit(store: Store, epoch: int, batch: Batch) -> None:
    """And the ledger adds up, by the look of the test and by the leader's own."""
    assert not (await store.commit(epoch, batch)).refused
    await audit(store, epoch)


async def audit(store: Store, epoch: int) -> None:
    await check_exact(store)
    assert await store.recount(epoch) == []


async def one_lost(store: Store, tenant_id: str, *, began_ms: int = 1000, lost_ms: int = 5000) -> int:
    """Job 1 has run there on one GPU, and is lost. Returns the epoch."""
    epoch = await store.claim()
    await submit(store, gpu_job(1, tenant_id))
    await start(store, epoch, given(1, reserve_gpu_ms=RESERVED))
    await run(store, epoch, 1, began_ms)
    await commit(store, epoch, Batch(lost_ms, lost=[lost(1, lost_ms)]))
    return epoch


async def come_back(store: Store, epoch: int) -> int:
    await commit(store, epoch, Batch(7000, returned=[returned(1, 1000, RESERVED)]))
    assert await hours(store, "new") == await hours(store, "new/lab") == RESERVED
    await commit(store, epoch, Batch(9000, ended=[ended(1, 9000)]))
    return 8000


async def end_without_a_word(store: Store, epoch: int) -> int:
    await commit(store, epoch, Batch(7000, ended=[ended(1, 7000)]))
    return 6000


async def end_while_another_runs(store: Store, epoch: int) -> int:
    await commit(store, epoch, Batch(6000, assigned=[given(1, reserve_gpu_ms=RESERVED, number=2)]))
    assert await hours(store, "new") == RESERVED + 4000
    lost_one = Superseded(nth(1))
    assert (await store.commit(epoch, Batch(6500, superseded=[lost_one]))).refused == [lost_one]
    batch = Batch(7000, ended=[ended(1, 7000)], superseded=[Superseded(nth(2))])
    await commit(store, epoch, batch)
    return 6000


async def come_back_while_another_runs(store: Store, epoch: int) -> int:
    await commit(store, epoch, Batch(6000, assigned=[given(1, reserve_gpu_ms=RESERVED, number=2)]))
    back = Batch(7000, returned=[returned(1, 1000)], superseded=[Superseded(nth(2))])
    await commit(store, epoch, back)
    assert await hours(store, "new") == RESERVED, "the other's place is its own"
    await commit(store, epoch, Batch(9000, ended=[ended(1, 9000)]))
    return 8000


async def be_lost_again(store: Store, epoch: int) -> int:
    await commit(store, epoch, Batch(7000, returned=[returned(1, 1000, RESERVED)]))
    await commit(store, epoch, Batch(8000, lost=[lost(1, 8000)]))
    assert await hours(store, "new") == 7000
    await commit(store, epoch, Batch(9000, ended=[ended(1, 8500)]))
    return 7500


async def be_cancelled(store: Store, epoch: int) -> int:
    await close(store, epoch, 1)
    how = Exit(Cause.SUPERSEDED, ended_ms=9000)
    await commit(store, epoch, Batch(9000, gone=[AttemptGone(nth(1), how)]))
    return 4000


@pytest.mark.parametrize(
    "what_then",
    [
        come_back,
        end_without_a_word,
        end_while_another_runs,
        come_back_while_another_runs,
        be_lost_again,
        be_cancelled,
    ],
)
async def test_what_was_counted_of_a_lost_attempt_is_the_new_parents_from_then_on(
    store: Store, what_then: Callable[[Store, int], Awaitable[int]]
) -> None:
    for name in ("old", "old/lab", "new"):
        await tenant(store, name, job_limits=EVER)
    epoch = await one_lost(store, "old/lab")
    assert [await hours(store, name) for name in ("old", "old/lab", "new")] == [4000, 4000, 0]
    await store.move_tenant("old/lab", "new/lab", ROOT, 5500)
    await audit(store, epoch)
    assert [await hours(store, name) for name in ("old", "new/lab", "new")] == [0, 4000, 4000]
    counted = await what_then(store, epoch)
    assert [await hours(store, name) for name in ("old", "new/lab", "new")] == [0, counted, counted]
    await audit(store, epoch)


async def test_it_goes_there_and_back_and_what_was_used_otherwise_stays(store: Store) -> None:
    for name in ("old", "old/lab", "new", "new/team"):
        await tenant(store, name, job_limits=EVER)
    epoch = await one_lost(store, "old/lab")
    await submit(store, gpu_job(1, "old/lab"), gpu_job(2, "new/team"))
    for job_id in (2, 3):
        await start(store, epoch, given(job_id))
        await run(store, epoch, job_id, 1000)
    await commit(store, epoch, Batch(3000, ended=[ended(2, 3000)]))
    await commit(store, epoch, Batch(4000, lost=[lost(3, 4000)]))
    assert (await hours(store, "old"), await hours(store, "new")) == (6000, 6000)
    await store.move_tenant("old/lab", "new/team/lab", ROOT, 5500)
    await audit(store, epoch)
    assert (await hours(store, "old"), await hours(store, "new")) == (2000, 10_000)
    assert (await hours(store, "new/team"), await hours(store, "new/team/lab")) == (10_000, 6000)
    await store.move_tenant("new/team/lab", "old/lab", ROOT, 5600)
    await audit(store, epoch)
    assert (await hours(store, "old"), await hours(store, "new")) == (6000, 6000)
    await commit(store, epoch, Batch(7000, returned=[returned(1, 1000, RESERVED)]))
    assert (await hours(store, "old"), await hours(store, "new")) == (2000 + RESERVED, 6000)


async def test_each_level_takes_what_was_in_its_own_period(store: Store) -> None:
    await tenant(store, "old", job_limits=EVER)
    await tenant(store, "old/lab", job_limits=EVER)
    await tenant(store, "new", job_limits=replace(EVER, period=Period.MONTH))
    await store.roll_periods(await store.claim(), JULY)
    epoch = await one_lost(store, "old/lab", began_ms=AUGUST - 4000, lost_ms=AUGUST + 1000)
    await store.roll_periods(epoch, AUGUST + 1500)
    await store.move_tenant("old/lab", "new/lab", ROOT, AUGUST + 2000)
    await audit(store, epoch)
    assert [await hours(store, name) for name in ("old", "new/lab", "new")] == [0, 5000, 1000]
    back = Batch(AUGUST + 3000, returned=[returned(1, AUGUST - 4000, RESERVED)])
    await commit(store, epoch, back)
    assert (await hours(store, "new/lab"), await hours(store, "new")) == (RESERVED, RESERVED)
    await commit(store, epoch, Batch(AUGUST + 6000, ended=[ended(1, AUGUST + 6000)]))
    assert (await hours(store, "new/lab"), await hours(store, "new")) == (10_000, 6000)


@pytest.mark.parametrize("by_a_new_limit", [False, True])
async def test_a_period_that_begins_late_counts_what_a_lost_attempt_ran_in_it(
    store: Store, *, by_a_new_limit: bool
) -> None:
    """Nobody led at midnight, or somebody changed the limit before the leader looked."""
    await tenant(store, job_limits=JobLimits(gpu_ms=100_000, period=Period.MONTH))
    await store.roll_periods(await store.claim(), JULY)
    epoch = await one_lost(store, "lab", began_ms=AUGUST - 2000, lost_ms=AUGUST + 3000)
    assert await hours(store) == 5000
    if by_a_new_limit:
        more = setting(job_limits=JobLimits(gpu_ms=200_000, period=Period.MONTH))
        await store.update_tenant("lab", more, ROOT, AUGUST + 4000)
    else:
        await store.roll_periods(epoch, AUGUST + 4000)
    await audit(store, epoch)
    assert await hours(store) == 3000
    back = Batch(AUGUST + 5000, returned=[returned(1, AUGUST - 2000, RESERVED)])
    await commit(store, epoch, back)
    assert await hours(store) == RESERVED
    await commit(store, epoch, Batch(AUGUST + 9000, ended=[ended(1, AUGUST + 9000)]))
    assert await hours(store) == 9000


async def test_a_new_name_and_the_archive_change_nothing_of_it(store: Store) -> None:
    for name in ("org", "org/lab"):
        await tenant(store, name, job_limits=EVER)
    epoch = await one_lost(store, "org/lab")
    with pytest.raises(TenantInUseError):
        await store.remove_tenant("org/lab", ROOT, 5100)
    await store.move_tenant("org/lab", "org/team", ROOT, 5200)
    await store.move_tenant("org", "firm", ROOT, 5300)
    await store.update_tenant("firm", setting(terms=Terms(archived=True)), ROOT, 5400)
    await audit(store, epoch)
    assert (await hours(store, "firm"), await hours(store, "firm/team")) == (4000, 4000)
    await commit(store, epoch, Batch(7000, returned=[returned(1, 1000, RESERVED)]))
    await commit(store, epoch, Batch(9000, ended=[ended(1, 9000)]))
    assert (await hours(store, "firm"), await hours(store, "firm/team")) == (8000, 8000)


async def test_limits_that_come_and_go_meanwhile_know_what_is_there(store: Store) -> None:
    model, licence = ("gpu:a100", 2000), ("generic:licence", 4)
    await tenant(store, limits=Limits(gpu_milli=2000, named=(licence,)))
    epoch = await store.claim()
    asks = {"gpu_type": "a100", "generic": (("licence", 1),)}
    await submit(store, gpu_job(2), gpu_job(1, priority_class=LOW, **asks))
    on_burst = given(2, Admission.BURST, reserve_gpu_ms=RESERVED)
    assert await start(store, epoch, given(1, reserve_gpu_ms=RESERVED), on_burst) == []
    for job_id in (1, 2):
        await run(store, epoch, job_id, 1000)
    await commit(store, epoch, Batch(5000, lost=[lost(1, 5000), lost(2, 5000)]))
    assert await hours(store) == 12_000

    def limited(by: Tenant) -> Tenant:
        jobs = JobLimits(running=5, gpu_ms=500_000, period=by.job_limits.period)
        return replace(by, limits=Limits(gpu_milli=9000, named=(model,)), job_limits=jobs)

    await store.update_tenant("lab", limited, ROOT, 5500)
    await audit(store, epoch)
    assert await hours(store) == 12_000
    back = [returned(job_id, 1000, RESERVED) for job_id in (1, 2)]
    await commit(store, epoch, Batch(7000, returned=back))
    assert await hours(store) == 2 * RESERVED
    assert (await seen(store)).burst.named == (("gpu:a100", 1000),)
    await store.update_tenant("lab", setting(limits=Limits(), job_limits=JobLimits()), ROOT, 7500)
    await commit(store, epoch, Batch(9000, ended=[ended(1, 9000), ended(2, 9000)]))
    assert await hours(store) == 24_000


async def test_another_period_begins_while_it_is_lost_and_again_once_it_is_back(store: Store) -> None:
    await tenant(store, job_limits=EVER)
    epoch = await one_lost(store, "lab")
    for at_ms, period in ((5500, Period.DAY), (6000, Period.EVER)):
        by = setting(job_limits=JobLimits(gpu_ms=100_000, period=period))
        await store.update_tenant("lab", by, ROOT, at_ms)
        assert await hours(store) == 0
        await audit(store, epoch)
    await commit(store, epoch, Batch(7000, returned=[returned(1, 1000, RESERVED)]))
    by_the_week = setting(job_limits=JobLimits(gpu_ms=100_000, period=Period.WEEK))
    await store.update_tenant("lab", by_the_week, ROOT, 8000)
    await audit(store, epoch)
    assert await hours(store) == RESERVED
    await commit(store, epoch, Batch(9000, lost=[lost(1, 9000)]))
    assert await hours(store) == 1000
    await commit(store, epoch, Batch(9500, ended=[ended(1, 9500)]))
    assert await hours(store) == 1500
