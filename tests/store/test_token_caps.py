"""What a token may still be used for: so many jobs, so many GPU-hours."""

import asyncio

import pytest

from tests.store.ledger_story import close, finish, given, gpu_job, run, start
from tests.store.store_story import ROOT
from tgpu.domain.job import JobSpec
from tgpu.domain.lifecycle import Happening
from tgpu.store.access_port import Token, TokenSpentError
from tgpu.store.port import Store, UnknownTenantError

HOUR = 3_600_000


async def a_token(store: Store, jobs: int | None = None, gpu_ms: int | None = None) -> int:
    digest = f"d{len(await store.tokens())}"
    token = Token(0, "ann", "user", digest, "", 1, None, jobs_left=jobs, gpu_ms_left=gpu_ms)
    return (await store.create_token(token, ROOT, 1)).token_id


async def left(store: Store) -> list[tuple[int | None, int | None]]:
    return [(token.jobs_left, token.gpu_ms_left) for token in await store.tokens()]


def an_hour(gpus: float = 1) -> JobSpec:
    """With the minute of grace that its class has."""
    return gpu_job(gpus, "default", time_limit_s=3540)


async def test_a_token_without_caps_is_good_for_everything(store: Store) -> None:
    token_id = await a_token(store)
    await store.submit([gpu_job(8, "default")] * 3, 1, token_id=token_id)
    assert await left(store) == [(None, None)]


async def test_jobs_are_counted_and_a_refused_submission_is_not(store: Store) -> None:
    token_id = await a_token(store, jobs=3)
    await store.submit([gpu_job(1, "default")] * 2, 1, token_id=token_id)
    with pytest.raises(TokenSpentError, match="good for 1 more jobs, and this asks for 2"):
        await store.submit([gpu_job(1, "default")] * 2, 1, token_id=token_id)
    with pytest.raises(UnknownTenantError):
        await store.submit([gpu_job(1, "nobody")], 1, token_id=token_id)
    assert await left(store) == [(1, None)]
    tenant = await store.tenant("default")
    assert tenant is not None
    assert (tenant.used.gpu_milli, tenant.job_use.waiting) == (2000, 2)
    await store.submit([gpu_job(1, "default")], 1, token_id=token_id)
    assert await left(store) == [(0, None)]


async def test_gpu_hours_are_asked_for_by_the_time_limit_and_the_grace(store: Store) -> None:
    token_id = await a_token(store, gpu_ms=3 * HOUR)
    await store.submit([an_hour(2)], 1, token_id=token_id)
    with pytest.raises(TokenSpentError, match=r"good for 1 more GPU-hours, and this asks for 1\.5"):
        await store.submit([an_hour(1.5)], 1, token_id=token_id)
    with pytest.raises(TokenSpentError, match="a time limit"):
        await store.submit([gpu_job(1, "default")], 1, token_id=token_id)
    await store.submit([gpu_job(0, "default")], 1, token_id=token_id)
    assert await left(store) == [(None, HOUR)]
    with pytest.raises(TokenSpentError, match="asks for 2 by its time limit and grace"):
        await store.submit([gpu_job(1, "default", time_limit_s=3600, grace_s=3600)], 1, token_id=token_id)


async def test_what_a_job_has_not_used_is_given_back_when_it_ends(store: Store) -> None:
    token_id = await a_token(store, gpu_ms=5 * HOUR)
    other = await a_token(store, jobs=9)
    epoch = await store.claim()
    await store.submit([an_hour(2), an_hour(1)], 1, token_id=token_id)
    await store.submit([an_hour(1)], 1, token_id=other)
    await start(store, epoch, given(1), given(3))
    await run(store, epoch, 1, 1000)
    assert await left(store) == [(None, 2 * HOUR), (8, None)]
    await close(store, epoch, 2)
    assert await left(store) == [(None, 3 * HOUR), (8, None)]
    await finish(store, epoch, 1, 1000 + 1_800_000)
    await finish(store, epoch, 3, 1000)
    assert await left(store) == [(None, 4 * HOUR), (8, None)]


async def test_nothing_is_given_back_while_a_job_may_run_again(store: Store) -> None:
    token_id = await a_token(store, gpu_ms=HOUR)
    epoch = await store.claim()
    await store.submit([an_hour()], 1, token_id=token_id)
    await start(store, epoch, given(1))
    await finish(store, epoch, 1, 500, Happening.PREEMPTED)
    assert await left(store) == [(None, 0)]


async def test_a_job_that_overran_takes_no_more_than_it_asked_for(store: Store) -> None:
    token_id = await a_token(store, gpu_ms=HOUR)
    epoch = await store.claim()
    await store.submit([an_hour()], 1, token_id=token_id)
    await start(store, epoch, given(1))
    await run(store, epoch, 1, 0)
    await finish(store, epoch, 1, 2 * HOUR)
    assert await left(store) == [(None, 0)]


async def test_many_callers_at_once_spend_a_token_exactly(store: Store) -> None:
    token_id = await a_token(store, jobs=10, gpu_ms=100 * HOUR)
    answers = await asyncio.gather(
        *(store.submit([an_hour()], 1, token_id=token_id) for _ in range(32)), return_exceptions=True
    )
    assert sum(isinstance(answer, TokenSpentError) for answer in answers) == 22
    assert await left(store) == [(0, 90 * HOUR)]
