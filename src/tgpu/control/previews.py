"""Plan previews on the leader: hypothetical jobs, planned in slices between which the control loop works.

Any user may ask for previews, as often as they like. So one is made at a time, each step of the work is
short, and after each step previews pause for several times as long: together they take at most a fifth of the
leader's time. The estimate of starts, which runs in a thread, counts as well.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from time import perf_counter

from tgpu.control.alerts import STORE_RESTORED
from tgpu.control.loop import Control
from tgpu.control.start_estimates import MOST_IN_TRIAL, unmaterialized
from tgpu.core.estimates.snapshot import Snapshot, take
from tgpu.core.picture import Picture
from tgpu.core.preview import Jobs, preview, with_jobs
from tgpu.domain.job import TaskBrief
from tgpu.domain.preview import FIRST_HYPOTHETICAL_ID, HypotheticalJob, StartPreview, Starts
from tgpu.domain.start_estimate import ExpectedStart
from tgpu.domain.views import Reason, Why

PAUSE = 4
"""How many times as long as a step took previews pause after it."""
SLICE_S = 0.03
"""From then on a step explains no further job; the next step begins again with the cluster state of then."""
MOST_WAITING = 16
LONGEST_WAIT_S = 8.0
"""Less than another server waits for an answer."""
_CERTAIN = (Starts.NOW, Starts.NEVER)


class TooManyPreviewsError(Exception):
    """Previews are asked for faster than the leader may make them."""

    def __init__(self) -> None:
        super().__init__("the leader is busy with other previews: try again shortly")


class Previews:
    def __init__(self, at_rest: Callable[[], Awaitable[Control]]) -> None:
        """`at_rest`: waits until the cluster state may be read."""
        self._at_rest = at_rest
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._next = 0.0
        """On the loop's clock: before then no step begins."""

    async def make(self, jobs: Sequence[HypotheticalJob]) -> list[StartPreview]:
        """Raises TooManyPreviewsError."""
        if self._waiting >= MOST_WAITING:
            raise TooManyPreviewsError
        self._waiting += 1
        try:
            asked = _now()
            async with self._turn:
                await self._pause()
                if _now() - asked > LONGEST_WAIT_S:
                    raise TooManyPreviewsError
                return await self._made(jobs)
        finally:
            self._waiting -= 1

    async def _made(self, jobs: Sequence[HypotheticalJob]) -> list[StartPreview]:
        tasks = [job.tasks(FIRST_HYPOTHETICAL_ID + place) for place, job in enumerate(jobs)]
        found: list[StartPreview] = []
        while True:
            await self._pause()
            control = await self._at_rest()
            began = perf_counter()
            trial = with_jobs(control.picture, tasks)
            found += _slice(control, trial, tasks[len(found) :], began)
            if len(found) == len(tasks):
                # Taken at once: the trial copy shares with the cluster state what changes in other turns.
                snapshot = _snapshot(control, trial, found)
                self._spent(perf_counter() - began)
                return await self._with_expected_starts(control, found, snapshot)
            self._spent(perf_counter() - began)

    async def _with_expected_starts(
        self, control: Control, found: list[StartPreview], snapshot: Snapshot | None
    ) -> list[StartPreview]:
        held = store_restored(control)
        if held is not None:
            return [_preview_held(each, held) for each in found]
        if control.estimates is None or snapshot is None:
            return found
        expected, spent_s = await control.estimates.of_trial(snapshot)
        self._spent(spent_s)
        return [
            _with_interval(each, expected.get(FIRST_HYPOTHETICAL_ID + place))
            for place, each in enumerate(found)
        ]

    def _spent(self, seconds: float) -> None:
        self._next = max(self._next, _now()) + PAUSE * seconds

    async def _pause(self) -> None:
        await asyncio.sleep(max(0.0, self._next - _now()))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _slice(
    control: Control, trial: Picture, tasks: Sequence[Sequence[TaskBrief]], began: float
) -> list[StartPreview]:
    """Of one job at least."""
    jobs: Jobs = tasks
    return preview(
        trial, control.policy, jobs, control.engine, is_over=lambda: perf_counter() - began > SLICE_S
    )


def store_restored(control: Control) -> str | None:
    """Why nothing is started at all, if that is so."""
    return next((alert.text for alert in control.alerts.now if alert.name == STORE_RESTORED), None)


def held_back(why: Why, text: str) -> Why:
    """Whatever else it waits for, it could not start; what would help is not known before that is over."""
    if not why.waiting:
        return why
    return replace(
        why,
        summary=f"waits: {text}",
        reasons=(Reason(STORE_RESTORED, text), *why.reasons),
        starts_at_ms=None,
        estimate=None,
        advice=None,
    )


def _snapshot(control: Control, trial: Picture, found: Sequence[StartPreview]) -> Snapshot | None:
    """For an estimate of starts; None if there is nothing to estimate, or too much."""
    certain = all(each.starts in _CERTAIN for each in found)
    if control.estimates is None or certain or len(trial.waiting) > MOST_IN_TRIAL:
        return None
    return take(trial, control.policy, unmaterialized(control.series))


def _with_interval(found: StartPreview, expected: ExpectedStart | None) -> StartPreview:
    """A projection of starts knows run times of similar jobs, and counts the jobs ahead."""
    interval = None if expected is None else expected.interval
    if found.starts in _CERTAIN or interval is None:
        return found
    why = replace(found.why, start=interval)
    if found.starts is Starts.AT and not found.is_lower_bound:
        return replace(found, why=why)
    why = replace(why, starts_at_ms=interval.expected_ms)
    return replace(found, starts=Starts.AT, why=why, is_lower_bound=False)


def _preview_held(found: StartPreview, text: str) -> StartPreview:
    if found.starts is Starts.NEVER:
        return found
    return StartPreview(Starts.WAITS, held_back(found.why, text), found.tasks, jobs_ahead=found.jobs_ahead)
