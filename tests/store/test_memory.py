import asyncio

from tests.store.store_story import a_job
from tgpu.store.memory import MemoryStore


async def test_there_is_a_moment_before_and_after_each_effect() -> None:
    store = MemoryStore()
    work = asyncio.ensure_future(store.submit([a_job()], 1))
    await asyncio.sleep(0)
    assert store._state.jobs == {}
    await asyncio.sleep(0)
    assert list(store._state.jobs) == [1]
    assert not work.done()
    assert (await work).job_ids == [1]


async def test_what_was_written_outlasts_a_caller_that_dies_before_its_answer() -> None:
    store = MemoryStore()
    work = asyncio.ensure_future(store.submit([a_job()], 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    work.cancel()
    assert await store.job(1) is not None


async def test_a_closed_store_forgets_its_subscribers_only() -> None:
    store = MemoryStore()
    woken: list[int] = []
    store.subscribe(lambda: woken.append(1))
    await store.submit([a_job()], 1)
    await store.close()
    assert (await store.submit([a_job()], 1)).job_ids == [2]
    assert woken == [1]
