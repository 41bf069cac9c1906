from tests.store.store_story import a_job, assign, end, nth, running
from tgpu.domain.lifecycle import Happening, Status
from tgpu.store.port import Batch, LiveSummary, Store


async def test_a_summary_counts_what_is_live_up_to_a_job(store: Store) -> None:
    epoch = await running(store)
    await store.submit([a_job(), a_job(), a_job()], 30)
    await store.commit(epoch, Batch(40, assigned=[assign(2)]))
    attempts = {(nth(1), "n1"), (nth(1, 2), "n1")}
    three = {Status.RUNNING: (1, 1), Status.SCHEDULED: (1, 2), Status.PENDING: (1, 3)}
    assert await store.live_summary(3) == LiveSummary(three, attempts)
    assert await store.live_summary(4) == LiveSummary({**three, Status.PENDING: (2, 7)}, attempts)


async def test_what_is_over_is_not_in_a_summary(store: Store) -> None:
    epoch = await running(store)
    await store.commit(epoch, Batch(90, ended=[end(Happening.SUCCEEDED)]))
    assert await store.live_summary(1) == LiveSummary({}, set())
