"""A seed is a bug report: the same number must always tell the same story."""

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


def test_one_seed_prints_its_trace_and_how_it_went() -> None:
    command = [sys.executable, "-m", "tgpu.sim", "--seed", "7", "--verbose"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    result = simulate(7)
    assert lines == [*result.trace.lines(), result.summary()]


def _told(seeds: str, hash_seed: str) -> str:
    """Everything but the last line, which says how fast it was."""
    command = [sys.executable, "-m", "tgpu.sim", "--seeds", seeds, "--digest"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    output = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return output.rpartition("\n")[0].rpartition("\n")[0]
