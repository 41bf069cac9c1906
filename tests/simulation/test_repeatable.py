"""A seed is a bug report: the same number must always tell the same story."""

import asyncio
import gc
import os
import subprocess
import sys

from tgpu.sim.run import simulate


def test_the_same_seed_tells_the_same_story_twice() -> None:
    assert list(simulate(7).trace.lines()) == list(simulate(7).trace.lines())


def test_different_seeds_tell_different_stories() -> None:
    assert simulate(7).trace.digest() != simulate(8).trace.digest()


def test_the_story_does_not_depend_on_the_hash_seed() -> None:
    told = {_told(seeds="0-9", hash_seed=hash_seed) for hash_seed in ("1", "2")}
    assert len(told) == 1


def test_garbage_of_earlier_loops_does_not_change_the_story() -> None:
    expected, ended_on = simulate(7).trace.digest(), list[bool]()
    threshold = gc.get_threshold()
    gc.collect()
    gc.set_threshold(1000)  # reached while the story goes on
    try:
        _abandon_a_coroutine(ended_on)
        assert simulate(7).trace.digest() == expected
    finally:
        gc.set_threshold(*threshold)
    gc.collect()
    assert ended_on == [False], "not on the simulated loop"


def test_one_seed_prints_its_trace_and_how_it_went() -> None:
    command = [sys.executable, "-m", "tgpu.sim", "--seed", "7", "--verbose"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    result = simulate(7)
    assert lines == [*result.trace.lines(), result.summary()]


def _abandon_a_coroutine(ended_on: list[bool]) -> None:
    """It is part of a cycle, so that only the garbage collector ends it. Notes whether a loop ran then."""

    async def suspended() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended_on.append(asyncio._get_running_loop() is not None)

    cycle: list[object] = [suspended()]
    cycle.append(cycle)
    cycle[0].send(None)  # type: ignore[attr-defined]


def _told(seeds: str, hash_seed: str) -> str:
    """Everything but the last line, which says how fast it was."""
    command = [sys.executable, "-m", "tgpu.sim", "--seeds", seeds, "--digest"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return output.rpartition("\n")[0].rpartition("\n")[0]
