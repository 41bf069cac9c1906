"""Projection of starts: the queue simulated forward, once per scenario of run times.

A scenario gives every running and pending task a run time from its distribution. It is bounded by a number of
steps: what has not started by then is extrapolated. The same snapshot gives the same projection.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tgpu.core.estimates.model import Model, Unit
from tgpu.core.estimates.run_times import RunTimes
from tgpu.core.estimates.scenario import Scenario
from tgpu.core.estimates.snapshot import Snapshot
from tgpu.core.kernel.shapes import Floats

SCENARIOS = 16
"""A power of two: every task meets each of as many quantiles once."""
MOST_STEPS = 100_000
"""Over all scenarios of one projection."""
_LARGE = 5_000
_VERY_LARGE = 30_000
"""Tasks, from which on there are fewer scenarios."""


@dataclass(slots=True)
class Projection:
    now_ms: int
    units: list[Unit] = field(default_factory=list)
    starts_ms: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """[scenario, unit]"""
    samples: list[list[int]] = field(default_factory=list)
    """By scenario, of the simulated units: of the run whose end let it start, the number of earlier runs that
    it was estimated from."""
    left_out: dict[int, str] = field(default_factory=dict)
    """By job: why its start is not projected."""
    steps: int = 0


def project(
    snapshot: Snapshot,
    run_times: RunTimes,
    *,
    most_steps: int = MOST_STEPS,
    breathe: Callable[[], None] = lambda: None,
) -> Projection:
    """Of every unit in a queue that quotas and licences admit. `breathe` is called every now and then, so
    that a thread may let others work."""
    size = len(snapshot.attempts.job) + sum(len(slots) for _, slots in snapshot.queues)
    scenarios = SCENARIOS if size < _LARGE else SCENARIOS // 2 if size < _VERY_LARGE else SCENARIOS // 4
    model = Model(snapshot, run_times, scenarios, breathe)
    made = Projection(snapshot.now_ms, model.units, left_out=model.left_out)
    if not model.units:
        return made
    made.starts_ms = np.empty((scenarios, len(model.units)))
    for scenario in range(scenarios):
        one = Scenario(model, scenario, most_steps // scenarios)
        one.run()
        made.steps += one.steps
        made.starts_ms[scenario] = one.all_starts()
        made.samples.append(one.samples)
        breathe()
    return made
