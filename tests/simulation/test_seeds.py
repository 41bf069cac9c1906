"""The real scheduler and agents, in virtual time, with everything going wrong: no promise may break."""

import re

import pytest

from tgpu.sim.run import simulate

SEEDS_PER_TEST = 10
AT_LEAST = {
    "cause=preempted by=job": 60,
    r"job \d+ preempted ": 30,
    r"job \d+ lost ": 20,
    r"job \d+ returned ": 1,
    r"job \d+ superseded ": 1,
    "is frozen": 1,
    "is thawed": 1,
    r"job \d+ is admitted: now": 60,
    r"job \d+ is admitted: burst": 1,
    "is refused: tenant": 1,
    r"admin +tenant \S+: weight": 1,
    r"admin +tenant \S+ is \S+ from now on": 1,
}
"""In the stories of 60 seeds."""


@pytest.mark.parametrize("first", range(0, 200, SEEDS_PER_TEST))
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    broken = [
        result.summary()
        for result in map(simulate, range(first, first + SEEDS_PER_TEST))
        if result.violations
    ]
    assert not broken, "\n".join(broken)


def test_what_the_promises_are_about_happens() -> None:
    """Otherwise they would hold because nobody is ever asked to keep them."""
    traces = [" ".join(simulate(seed).trace.lines()) for seed in range(60)]
    happened = {word: sum(len(re.findall(word, trace)) for trace in traces) for word in AT_LEAST}
    assert {word for word, least in AT_LEAST.items() if happened[word] < least} == set(), happened
