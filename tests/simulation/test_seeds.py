"""The real scheduler and agents, in virtual time, with everything going wrong: no promise may break."""

import re

import pytest

from tgpu.sim.run import simulate

SEEDS_PER_TEST = 10


@pytest.mark.parametrize("first", range(0, 300, SEEDS_PER_TEST))
def test_no_promise_is_broken_whatever_goes_wrong(first: int) -> None:
    broken = [
        result.summary()
        for result in map(simulate, range(first, first + SEEDS_PER_TEST))
        if result.violations
    ]
    assert not broken, "\n".join(broken)


def test_jobs_give_way_to_others_and_run_again() -> None:
    """Otherwise the promises about preemption would hold because nobody is ever asked to keep them."""
    traces = [" ".join(simulate(seed).trace.lines()) for seed in range(60)]
    ordered = sum(trace.count("cause=preempted by=job") for trace in traces)
    went = sum(len(re.findall(r"job \d+ preempted ", trace)) for trace in traces)
    assert ordered >= 60
    assert went >= 30


def test_nodes_are_lost_and_return_to_tasks_that_have_moved_and_are_frozen_meanwhile() -> None:
    traces = [" ".join(simulate(seed).trace.lines()) for seed in range(60)]
    happened = {
        word: sum(len(re.findall(word, trace)) for trace in traces)
        for word in (r"job \d+ lost ", r"job \d+ returned ", r"job \d+ superseded ", "is frozen", "is thawed")
    }
    assert min(happened.values()) > 0, happened
    assert happened[r"job \d+ lost "] >= 20


def test_quotas_hold_and_admit_and_tenants_are_changed_and_moved() -> None:
    traces = [" ".join(simulate(seed).trace.lines()) for seed in range(60)]
    happened = {
        word: sum(len(re.findall(word, trace)) for trace in traces)
        for word in (
            r"job \d+ is admitted: now",
            r"job \d+ is admitted: burst",
            r"is refused: tenant",
            r"admin +tenant \S+: weight",
            r"admin +tenant \S+ is \S+ from now on",
        )
    }
    assert min(happened.values()) > 0, happened
    assert happened[r"job \d+ is admitted: now"] >= 60
