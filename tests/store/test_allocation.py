"""Allocation over time: averages of steps, alike on every store."""

from random import Random

from tests.store.store_story import a_job, a_node, assign, end, nth, running
from tgpu.domain.lifecycle import Happening
from tgpu.store.allocation import AllocationSum
from tgpu.store.port import Batch, Started, Store


async def test_steps_show_what_attempts_held_on_average(store: Store) -> None:
    epoch = await running(store)  # runs from 20 on
    await store.commit(epoch, Batch(26, nodes=[a_node()]))
    await store.submit([a_job(gpu_milli=2000)], 30)
    await store.commit(epoch, Batch(35, assigned=[assign(2)]))
    await store.commit(epoch, Batch(45, started=[Started(nth(1, 2), 40)]))
    await store.commit(epoch, Batch(100, ended=[end(Happening.SUCCEEDED)]))  # at 90
    found = await store.allocation(0, 110, 20)
    assert found.gpu_milli == [0, 1000, 3000, 3000, 2500, 2000]
    assert found.cpu_milli == [0, 500, 1000, 1000, 750, 500]
    assert found.memory_mib == [0, 64, 128, 128, 96, 64]
    assert (await store.allocation(30, 110, 40, "n1")).gpu_milli == [2500, 2500]
    assert (await store.allocation(0, 110, 20, "n2")).gpu_milli == [0] * 6


def test_sums_equal_the_plain_integral() -> None:
    chance = Random(3)
    attempts = [(chance.randrange(-50, 900), chance.randrange(200), chance.randrange(5)) for _ in range(200)]
    found = AllocationSum(0, 950, 100)
    levels = [0.0] * 10
    for started, length, amount in attempts:
        found.add_attempt(started, started + length, (amount, amount, 1000 * amount))
        for step in range(10):
            begin, stop = max(started, 100 * step), min(started + length, 100 * step + 100, 950)
            levels[step] += 1000 * amount * max(0, stop - begin) / (50 if step == 9 else 100)
    averages = found.averages()
    assert all(abs(got - want) <= 1 for got, want in zip(averages.gpu_milli, levels, strict=True))
