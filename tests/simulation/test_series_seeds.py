"""The same with jobs of many tasks among the others, and users who meddle with them."""

import re

import pytest

from tests.simulation.test_seeds import keep_their_promises
from tgpu.sim.run import simulate

SEEDS, SEEDS_PER_TEST = range(12, 40), 4
FIRST = (*range(12), 37)
"""The last one has what is rare: tasks that a user restarts."""
AT_LEAST = {
    "cause=suspended": 1,
    "cause=restarted": 1,
    "cause=job-failed": 1,
    r"job \d+: pace": 1,
    r"job \d+ dropped ": 1,
    r"process \d+\.[1-9]\d\.\d+ starts": 20,
    r"it is tried again in": 1,
}


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_TEST])
def test_no_promise_is_broken_with_series_either(first: int) -> None:
    results = [simulate(seed, series=True) for seed in range(first, first + SEEDS_PER_TEST)]
    keep_their_promises(results)


def test_and_all_happens_that_series_are_about() -> None:
    results = [simulate(seed, series=True) for seed in FIRST]
    keep_their_promises(results)
    traces = [" ".join(result.trace.lines()) for result in results]
    happened = {word: sum(len(re.findall(word, trace)) for trace in traces) for word in AT_LEAST}
    assert {word for word, least in AT_LEAST.items() if happened[word] < least} == set(), happened
