"""The ledger is looked over: what it says is the sum of what lives, or is put right."""

from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import update

from tests.store.ledger_crowd import decided, found, some_jobs
from tests.store.ledger_story import (
    check_exact,
    check_limits,
    close,
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
from tgpu.domain.quota import Amounts, JobUse, Limits
from tgpu.store.memory import MemoryStore
from tgpu.store.port import Batch, Store
from tgpu.store.quota_port import Discrepancy, QuotaExceededError
from tgpu.store.sql.session import Query, constant
from tgpu.store.sql_store import SqlStore
from tgpu.store.tables import quota_lines, tenants
from tgpu.store.tally import BURST

SPOIL = Query(
    "Makes the ledger wrong.",
    update(tenants)
    .values(
        gpu_milli_used=constant(77), running=constant(5), disk_mib_burst=constant(9), gpu_ms_used=constant(3)
    )
    .where(tenants.c.tenant_id == constant("lab")),
)
SPOIL_LINE = Query(
    "Makes a named limit's line wrong.",
    update(quota_lines).values(used=constant(2)).where(quota_lines.c.tenant_id == constant("lab")),
)


async def spoil(store: Store) -> None:
    if isinstance(store, SqlStore):
        await store._write(lambda session: session.change(SPOIL))
        await store._write(lambda session: session.change(SPOIL_LINE))
        return
    assert isinstance(store, MemoryStore)
    state = store._state
    lab = state.tenants["lab"]
    used = replace(lab.used, gpu_milli=77, named=(("generic:licence", 2),))
    state.tenants["lab"] = replace(
        lab, used=used, burst=Amounts(disk_mib=9), job_use=replace(lab.job_use, running=5, gpu_ms=3)
    )


async def test_what_differs_is_told_and_put_right(store: Store) -> None:
    await tenant(store, limits=Limits(gpu_milli=9000, named=(("generic:licence", 5),)))
    await tenant(store, "lab/ann")
    epoch = await store.claim()
    await submit(store, gpu_job(1, "lab/ann", generic=(("licence", 1),)), gpu_job(2))
    await start(store, epoch, given(1, reserve_gpu_ms=500))
    assert await store.recount(epoch) == []
    right = await store.tenants()
    await spoil(store)
    assert sorted(await store.recount(epoch), key=lambda each: each.dimension) == [
        Discrepancy("lab", f"{BURST}disk_mib", 9, 0),
        Discrepancy("lab", "generic:licence", 2, 1),
        Discrepancy("lab", "gpu_milli", 77, 3000),
        Discrepancy("lab", "gpu_ms", 3, 500),
        Discrepancy("lab", "running", 5, 1),
    ]
    assert await store.tenants() == right
    assert await store.recount(epoch) == []
    assert (await seen(store)).job_use == JobUse(1, 1, 500)


async def test_gpu_hours_of_lost_attempts_that_are_missing_are_put_back(store: Store) -> None:
    """Of what is taken off when they return; nothing else of what is used can be added up."""
    await tenant(store, limits=Limits(named=(("generic:licence", 5),)))
    epoch = await store.claim()
    await submit(store, gpu_job(1), gpu_job(2), gpu_job(1))
    await start(store, epoch, given(1), given(2), given(3, reserve_gpu_ms=500))
    for job_id in (1, 2):
        await run(store, epoch, job_id, 1000)
    await store.commit(epoch, Batch(5000, lost=[lost(1, 5000), lost(2, 5000)]))
    await close(store, epoch, 2)
    assert await store.recount(epoch) == []
    await spoil(store)
    assert Discrepancy("lab", "gpu_ms", 3, 4500) in await store.recount(epoch)
    assert await hours(store) == 4500
    await store.commit(epoch, Batch(7000, returned=[returned(1, 1000, 700)]))
    assert await hours(store) == 1200


@pytest.mark.parametrize("seed", range(3))
async def test_at_every_step_the_ledger_is_exact_and_no_limit_exceeded(store: Store, seed: int) -> None:
    chance = Random(seed)
    await found(store)
    epoch = await store.claim()
    refused = bursts = 0
    for step in range(1, 80):
        if chance.random() < 0.5:
            try:
                await store.submit(some_jobs(chance), step)
            except QuotaExceededError:
                refused += 1
        else:
            tasks = (await store.load()).tasks
            refused += len((await store.commit(epoch, decided(tasks, step * 100, chance))).refused)
            bursts += sum(task.burst for task in tasks)
        await check_exact(store)
        await check_limits(store)
        assert await store.recount(epoch) == []
    assert refused > 20
    assert bursts
