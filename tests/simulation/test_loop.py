"""The loop under the simulation: time that jumps, chance by the seed, and deaths without last words."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest

from tgpu.sim.loop import Incarnation, SimLoop, StuckError


def play(story: Coroutine[Any, Any, None], seed: int = 0) -> SimLoop:
    loop = SimLoop(Random(seed))
    try:
        loop.run_until_complete(story)
    finally:
        loop.dispose()
    return loop


def spawn(owner: Incarnation, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(work, context=owner.context.copy())


def test_a_year_passes_in_no_time() -> None:
    year = 365 * 24 * 3600.0
    assert play(asyncio.sleep(year)).time() == year


def test_who_is_ready_at_the_same_time_runs_in_an_order_that_the_seed_decides() -> None:
    def order(seed: int) -> list[int]:
        ran: list[int] = []

        async def runner(number: int) -> None:
            ran.append(number)

        async def story() -> None:
            await asyncio.gather(*(runner(number) for number in range(8)))

        play(story(), seed)
        return ran

    orders = [order(seed) for seed in range(5)]
    assert orders == [order(seed) for seed in range(5)]
    assert len(set(map(tuple, orders))) == 5


def test_a_process_that_is_killed_says_nothing_more_not_even_finally() -> None:
    said: list[str] = []
    victim = Incarnation("victim")

    async def child() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            said.append("child's last word")

    async def live() -> None:
        try:
            said.append("born")
            await asyncio.gather(spawned := asyncio.ensure_future(child()), asyncio.sleep(9))
            del spawned
        finally:
            said.append("last word")

    async def story() -> None:
        spawn(victim, live())
        await asyncio.sleep(1)
        victim.alive = False
        await asyncio.sleep(100)
        assert said == ["born"]

    play(story())


def test_a_process_that_is_paused_goes_on_later_as_if_nothing_had_been() -> None:
    ticks: list[float] = []
    sleeper = Incarnation("sleeper")

    async def tick() -> None:
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(1)

    async def story() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        spawn(sleeper, tick())
        await asyncio.sleep(1.5)
        sleeper.paused = True
        await asyncio.sleep(5)
        loop.resume(sleeper)
        await asyncio.sleep(1.2)

    play(story())
    assert ticks == [0.0, 1.0, 6.5, 7.5]


def test_a_fuse_burns_with_each_step_of_its_process_only() -> None:
    burnt: list[float] = []
    victim = Incarnation("victim")
    victim.fuse = 3
    victim.on_fuse = lambda: burnt.append(asyncio.get_running_loop().time())

    async def tick() -> None:
        for _ in range(9):
            await asyncio.sleep(1)

    async def story() -> None:
        spawn(victim, tick())
        for _ in range(100):
            await asyncio.sleep(0)
        assert burnt == []
        await asyncio.sleep(10)
        assert len(burnt) == 1

    play(story())


def test_what_is_scheduled_outside_outlives_who_asked_for_it() -> None:
    rung: list[float] = []
    victim = Incarnation("victim")

    async def live() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        loop.call_later(1, rung.append, 1.0)
        loop.outside(2, rung.append, 2.0)

    async def story() -> None:
        spawn(victim, live())
        await asyncio.sleep(0.5)
        victim.alive = False
        await asyncio.sleep(5)

    play(story())
    assert rung == [2.0]


def test_a_run_in_which_nothing_can_happen_any_more_ends() -> None:
    async def story() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError, match="nothing is left to happen"):
        play(story())


def test_a_callback_that_fails_ends_the_run() -> None:
    async def story() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        play(story())
