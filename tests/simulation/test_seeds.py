"""The real scheduler and agents, in virtual time, with everything going wrong: no promise may break."""

import re
from collections.abc import Iterable

import pytest

from tgpu.sim.run import Result, simulate

SEEDS, SEEDS_PER_TEST = range(60, 140), 10
FIRST = (*range(60), 122, 220)
"""The last two have what is rare: a device that fails under a task, and a burst."""
AT_LEAST = {
    "cause=preempted by=job": 60,
    r"job \d+ preempted ": 30,
    r"job \d+ lost ": 20,
    r"job \d+ returned ": 1,
    r"job \d+ superseded ": 1,
    "cause=gang-broken": 10,
    "cause=gang-restarted": 3,
    r"process \d+\.[1-9]\.\d+ starts": 60,
    "is frozen": 1,
    "is thawed": 1,
    r"job \d+ is admitted: now": 60,
    r"job \d+ is admitted: burst": 1,
    "is refused: tenant": 1,
    "cause=device-lost": 1,
    r"admin +tenant \S+: weight": 1,
    r"admin +tenant \S+ is \S+ from now on": 1,
}
"""In those stories."""


def keep_their_promises(results: Iterable[Result]) -> None:
    broken = [result.summary() for result in results if result.violations]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_TEST])
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    keep_their_promises(map(simulate, range(first, first + SEEDS_PER_TEST)))


def test_nor_is_one_where_all_happens_that_promises_are_about() -> None:
    """Otherwise they would hold because nobody is ever asked to keep them."""
    results = [simulate(seed) for seed in FIRST]
    keep_their_promises(results)
    traces = [" ".join(result.trace.lines()) for result in results]
    happened = {word: sum(len(re.findall(word, trace)) for trace in traces) for word in AT_LEAST}
    assert {word for word, least in AT_LEAST.items() if happened[word] < least} == set(), happened
