"""The same with jobs that wait for others, for a moment or for somebody, and with checkers that can fail."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.simulation.test_seeds import keep_their_promises
from tgpu.control.deadlines import Deadlines
from tgpu.control.needs import Needs
from tgpu.domain.ids import TaskId
from tgpu.domain.job import TaskBrief
from tgpu.domain.lifecycle import Status
from tgpu.domain.needs import NeedKind
from tgpu.domain.timing import Timing
from tgpu.sim.run import simulate
from tgpu.sim.store import SimStore
from tgpu.store.memory_state import State
from tgpu.store.port import World

SEEDS, SEEDS_PER_TEST = range(16), 8
AT_LEAST = {
    "needs-met": 20,
    "cause=dependency-failed": 10,
    "the same index of job": 1,
    "cause=deadline": 3,
    "holds job": 10,
    "edits job": 10,
}
MOST_SEEDS = 100
Patch = pytest.MonkeyPatch


@pytest.mark.parametrize("first", SEEDS[::SEEDS_PER_TEST])
def test_no_promise_is_broken_to_those_who_wait_for_more_than_room(first: int) -> None:
    results = [simulate(seed, series=True, waiting=True) for seed in range(first, first + SEEDS_PER_TEST)]
    keep_their_promises(results)
    trace = " ".join(line for result in results for line in result.trace.lines())
    happened = {word: len(re.findall(word, trace)) for word in AT_LEAST}
    assert {word for word, least in AT_LEAST.items() if happened[word] < least} == set(), happened


def needs_that_anything_meets(patch: Patch) -> None:
    def decide(self: Needs, job_id: int, kind: NeedKind, on: int, status: Status | None) -> None:
        del kind, on, status
        self._one_less(job_id)

    patch.setattr(Needs, "_decide", decide)


def needs_that_nothing_fails(patch: Patch) -> None:
    original = Needs._decide

    def decide(self: Needs, job_id: int, kind: NeedKind, on: int, status: Status | None) -> None:
        if status is not None and kind.is_met_by(status):
            original(self, job_id, kind, on, status)

    patch.setattr(Needs, "_decide", decide)


def a_leader_that_does_not_read_what_jobs_wait_for(patch: Patch) -> None:
    original = SimStore.load

    async def load(self: SimStore) -> World:
        return replace(await original(self), needs=[])

    patch.setattr(SimStore, "load", load)


def holds_that_hold_nothing(patch: Patch) -> None:
    patch.setattr(Timing, "is_parked", property(lambda self: self.unmet or self.suspended_by is not None))


def a_leader_that_knows_no_moments(patch: Patch) -> None:
    original = State.brief

    def brief(self: State, task_id: TaskId) -> TaskBrief:
        task = original(self, task_id)
        return (
            task
            if task.timing is None
            else replace(task, timing=replace(task.timing, begin_ms=None), eligible_ms=0)
        )

    patch.setattr(State, "brief", brief)


def a_leader_that_looks_at_no_deadlines(patch: Patch) -> None:
    patch.setattr(Deadlines, "take_in", lambda *_: None)


@pytest.mark.parametrize(
    ("breaks", "checker"),
    [
        (needs_that_anything_meets, "NobodyStartsBeforeItMay"),
        (needs_that_nothing_fails, "NeverMetEndsAtOnce"),
        (a_leader_that_does_not_read_what_jobs_wait_for, "AcknowledgedIsNeverLost"),
        (holds_that_hold_nothing, "NobodyStartsBeforeItMay"),
        (a_leader_that_knows_no_moments, "NobodyStartsBeforeItMay"),
        (a_leader_that_looks_at_no_deadlines, "NobodyStartsBeforeItMay"),
    ],
)
def test_what_is_broken_on_purpose_is_found(
    breaks: Callable[[Patch], None], checker: str, monkeypatch: Patch
) -> None:
    breaks(monkeypatch)
    found: dict[str, int] = {}
    for seed in range(MOST_SEEDS):
        for name, _ in simulate(seed, waiting=True).violations:
            found.setdefault(name, seed)
        if checker in found:
            return
    pytest.fail(f"{breaks.__name__} was not found by {checker} in {MOST_SEEDS} seeds, only by {found}")
