"""The real scheduler and agents, in virtual time, with everything going wrong: no promise may break."""

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
