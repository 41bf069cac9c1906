"""The same of series: what is broken on purpose, the right checker finds."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.simulation.test_mutations import (
    Patch,
    a_committer_that_forgets_the_claim,
    an_outcome_that_calls_a_preemption_a_failure,
)
from tgpu.control import retrying, series
from tgpu.control.series_book import Entry
from tgpu.core.picture import Picture
from tgpu.domain.job import JobSpec, TaskBrief
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.retries import Retries
from tgpu.sim import workload
from tgpu.sim.run import simulate
from tgpu.sim.series import as_series
from tgpu.store import memory_series
from tgpu.store.memory_state import State
from tgpu.store.series_port import GrownTo

MOST_SEEDS = 60


def nothing_but_large_series(patch: Patch) -> None:
    """Of tasks that take as much as any: they are in each other's way."""
    original = workload.happens

    def large(random: Random, spec: JobSpec) -> JobSpec:
        made = as_series(random, spec)
        return replace(made, groups=(replace(made.groups[0], request=spec.groups[0].request),))

    patch.setattr(workload, "as_series", large)
    patch.setattr(workload, "happens", lambda random, chance: chance == 0.5 or original(random, chance))


def failures(patch: Patch, retries: Retries) -> None:
    """Every task fails, and this is what its job says of it."""
    original = workload.as_series

    def failing(random: Random, spec: JobSpec) -> JobSpec:
        made = replace(original(random, spec), retries=retries)
        command = ("simulated", "50", "1", "100", "yes")
        return replace(made, groups=(replace(made.groups[0], command=command),))

    patch.setattr(workload, "as_series", failing)


def a_series_that_does_not_mind_how_many_run_at_once(patch: Patch) -> None:
    original = series._grow

    def grow(picture: Picture, entry: Entry, turn: Any) -> None:
        spec = entry.job.spec
        if spec.series is not None:
            spec = replace(spec, series=replace(spec.series, at_once=None))
            entry.job = replace(entry.job, spec=spec)
        original(picture, entry, turn)

    patch.setattr(series, "_grow", grow)


def a_series_that_goes_on_as_before_when_its_cap_is_lowered(patch: Patch) -> None:
    patch.setattr(series, "keep_back", lambda *_about: None)


def a_series_that_does_not_mind_how_many_have_failed(patch: Patch) -> None:
    original = series._settle_one

    def settle(picture: Picture, entry: Entry, turn: Any) -> None:
        entry.failed = 0
        original(picture, entry, turn)

    patch.setattr(series, "_settle_one", settle)


def a_judge_who_counts_that_a_task_gave_way(patch: Patch) -> None:
    original = retrying.judge

    def judge(how: Any, *about: Any) -> retrying.Verdict:
        verdict = original(how, *about)
        return verdict._replace(counts=verdict.counts or how.cause is Cause.PREEMPTED)

    patch.setattr(retrying, "judge", judge)


def a_judge_who_never_has_enough(patch: Patch) -> None:
    patch.setattr(retrying.Retries, "exhausts_job", lambda *_: False)
    patch.setattr(retrying.Retries, "exhausts_index", lambda *_: False)


def a_store_that_forgets_until_when_to_wait(patch: Patch) -> None:
    original = State.brief
    patch.setattr(State, "brief", lambda *about: replace(original(*about), eligible_ms=0))


def a_store_that_tells_of_a_new_task_twice(patch: Patch) -> None:
    original = memory_series._grow

    def grow(state: State, *about: Any) -> GrownTo:
        grown = original(state, *about)
        for task in grown.tasks[:1]:
            job = state.jobs[grown.job_id]
            state.record(1, Happening.SUBMITTED.value, job, task.task_id.task_index, {})
        return grown

    patch.setattr(memory_series, "_grow", grow)


def a_store_that_adds_one_too_many(patch: Patch) -> None:
    original = memory_series.next_ones
    patch.setattr(memory_series, "next_ones", lambda *about: [*original(*about), None])


def a_store_that_tells_of_other_tasks_than_it_added(patch: Patch) -> None:
    original = memory_series._grow

    def next_to(task: TaskBrief) -> TaskBrief:
        return replace(task, task_id=task.task_id._replace(task_index=task.task_id.task_index + 1))

    def grow(state: State, *about: Any) -> GrownTo:
        grown = original(state, *about)
        return grown._replace(tasks=[next_to(task) for task in grown.tasks])

    patch.setattr(memory_series, "_grow", grow)


NEEDS: dict[Callable[[Patch], None], Callable[[Patch], None]] = {
    a_series_that_does_not_mind_how_many_have_failed: lambda patch: failures(patch, Retries(max_failures=1)),
    a_store_that_forgets_until_when_to_wait: lambda patch: failures(patch, Retries(None, 2)),
}
"""As for other jobs."""


@pytest.mark.parametrize(
    ("breaks", "checker"),
    [
        (a_series_that_does_not_mind_how_many_run_at_once, "SeriesKeepTheirWord"),
        (a_series_that_goes_on_as_before_when_its_cap_is_lowered, "SeriesKeepTheirWord"),
        (a_series_that_does_not_mind_how_many_have_failed, "SeriesKeepTheirWord"),
        (a_judge_who_counts_that_a_task_gave_way, "SeriesKeepTheirWord"),
        (a_judge_who_never_has_enough, "SeriesKeepTheirWord"),
        (a_store_that_forgets_until_when_to_wait, "SeriesKeepTheirWord"),
        (a_store_that_tells_of_a_new_task_twice, "OnlyLegalMoves"),
        (a_store_that_adds_one_too_many, "OnlyLegalMoves"),
        (a_store_that_tells_of_other_tasks_than_it_added, "OnlyLegalMoves"),
        (a_committer_that_forgets_the_claim, "NothingPreemptedForNothing"),
        (an_outcome_that_calls_a_preemption_a_failure, "PreemptedIsNeverLost"),
    ],
)
def test_what_is_broken_on_purpose_is_found(
    breaks: Callable[[Patch], None], checker: str, monkeypatch: Patch
) -> None:
    breaks(monkeypatch)
    nothing_but_large_series(monkeypatch)
    if breaks in NEEDS:
        NEEDS[breaks](monkeypatch)
    found: dict[str, int] = {}
    for seed in range(MOST_SEEDS):
        for name, _ in simulate(seed, series=True).violations:
            found.setdefault(name, seed)
        if checker in found:
            return
    pytest.fail(f"{breaks.__name__} was not found by {checker} in {MOST_SEEDS} seeds, only by {found}")
