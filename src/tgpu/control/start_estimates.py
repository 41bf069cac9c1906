"""Expected starts of pending jobs: estimated beside the loop, recorded once per job, and scored at the start.

A pass takes a snapshot of the cluster state and projects it in a thread. Its cost bounds how often there is
one. What is recorded goes to the store in one transaction every few seconds, never on the way of a job.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from tgpu.control.observer import Observer
from tgpu.control.series_book import SeriesBook
from tgpu.control.turn import Turn
from tgpu.core.estimates.run_times import RunTimes, Work
from tgpu.core.estimates.snapshot import Snapshot, take
from tgpu.core.estimates.start_intervals import Estimates, Residuals, Widening, estimate
from tgpu.core.picture import Picture
from tgpu.core.policy import Policy
from tgpu.domain.lifecycle import Cause
from tgpu.domain.start_estimate import ExpectedStart, StartEstimate, StartInterval
from tgpu.observe.logs import logger
from tgpu.store.estimate_port import EstimateChanges
from tgpu.store.port import DeposedError, Store, StoreUnavailableError

SHARE = 0.03
"""The most of its time that a leader spends on estimates."""
MOST_IN_TRIAL = 500
"""Pending tasks of a trial: with more of them, an estimate takes longer than a user waits for it."""
MOST_TRIAL_S = 0.5
"""Of processor time, for the estimate of a trial."""
FLUSH_S = 5.0
"""Between two writes of what was recorded."""
MOST_OPEN = 5000
"""Jobs whose start is awaited to score an estimate; of a longer queue only as many are scored."""
MOST_WRITTEN = 1000
"""First estimates in one transaction."""
RUNS_LOADED = 5000
_MOST_PUT_OFF = 5000
_SCORED_REMEMBERED = 20_000
_WORK_S, _REST_S = 0.002, 0.001
"""The thread of a pass rests now and then, so that the loop need not wait for the interpreter."""
_OWN_END = frozenset(
    {
        Cause.EXITED,
        Cause.SIGNALLED,
        Cause.OUT_OF_MEMORY,
        Cause.TIME_LIMIT,
        Cause.DISK_LIMIT,
        Cause.CANCELLED,
        Cause.DEADLINE,
    }
)
"""After these a run time says something about the next run: the cluster did not cut it short."""


class Term(Protocol):
    """The part of the control loop that a pass reads."""

    picture: Picture
    policy: Policy
    series: SeriesBook
    planning: asyncio.Lock


@dataclass(frozen=True, slots=True)
class _First:
    estimate: StartEstimate
    interval: StartInterval
    widening: Widening | None
    """None: it was made in an earlier term."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass has found."""

    made: Estimates
    fresh: list[int]
    """Jobs of which no task has begun and that have no recorded estimate."""
    gone: frozenset[int]
    """Jobs with a recorded estimate that neither wait nor have a node any more."""
    spent_s: float
    """Of processor time."""


async def in_a_thread(work: Callable[[], Pass]) -> Pass:
    return await asyncio.to_thread(work)


def _jobs_that_wait(snapshot: Snapshot, begun: set[int]) -> tuple[set[int], set[int]]:
    """Those that have not begun, and all that may still start or have."""
    fresh: set[int] = set()
    again = set(begun)
    for task in snapshot.waiting:
        if task is not None:
            (again if task.attempts else fresh).add(task.task_id.job_id)
    return fresh - again, fresh | again | {task.task_id.job_id for task in snapshot.parked}


class StartEstimates:
    """Of one term as leader."""

    def __init__(
        self, store: Store, observer: Observer, every_s: float, failed: Callable[[Exception], None]
    ) -> None:
        """`failed`: counts and alerts a fault."""
        self._store, self._observer, self._every_s, self._failed = store, observer, every_s, failed
        self.run_times = RunTimes()
        self._residuals = Residuals()
        self._first: dict[int, _First] = {}
        self._scored: OrderedDict[int, None] = OrderedDict()
        self._ended: list[tuple[Work, float]] = []
        self._made: list[StartEstimate] = []
        self._started: list[tuple[int, int]] = []
        self._dropped: list[int] = []
        self._latest: Estimates | None = None
        self._next_flush = 0.0
        self._is_over = False
        self._log = logger("start-estimates")
        self._under_way = asyncio.Lock()
        self.aside: Callable[[Callable[[], Pass]], Awaitable[Pass]] = in_a_thread
        """Runs a pass beside the loop."""

    async def run(self, term: Term, epoch: int) -> None:
        """Until cancelled, or until another server leads."""
        try:
            await self._run(term, epoch)
        finally:
            self._is_over = True

    async def _run(self, term: Term, epoch: int) -> None:
        loop = asyncio.get_running_loop()
        loaded = False
        while True:
            pause_s = self._every_s
            try:
                if not loaded:
                    await self._load()
                    loaded = True
                if term.picture.waiting or self._first or any(True for _ in term.picture.parked):
                    async with self._under_way:
                        pause_s = max(pause_s, await self._estimate(term) / SHARE)
                if loop.time() >= self._next_flush:
                    await self._flush(epoch)
                    self._next_flush = loop.time() + FLUSH_S
            except DeposedError:
                return
            except StoreUnavailableError as error:
                self._log.warning("put off: the store is away", error=str(error))
            except Exception as error:  # noqa: BLE001  estimates are worth less than the loop
                self._failed(error)
                pause_s = max(pause_s, FLUSH_S)
            await asyncio.sleep(pause_s)

    def committed(self, turn: Turn) -> None:
        """What a turn has recorded of starts and ends."""
        if turn.runs:
            self._ended += [
                (Work.of(task), run_ms / 1000) for task, run_ms, cause in turn.runs if cause in _OWN_END
            ]
            del self._ended[:-_MOST_PUT_OFF]
        for job_id, at_ms in turn.began:
            first = self._first.pop(job_id, None)
            if first is not None:
                self._score(first, at_ms)

    def of(self, job_ids: Iterable[int], now_ms: int) -> list[ExpectedStart | None]:
        """None of a job that the latest pass did not know."""
        known = {} if self._latest is None else self._latest.jobs
        return [
            None if (found := known.get(job_id)) is None else not_past(found, now_ms) for job_id in job_ids
        ]

    async def of_trial(self, snapshot: Snapshot) -> tuple[Mapping[int, ExpectedStart], float]:
        """Of the jobs in a snapshot of a trial copy of the cluster state, and the seconds of processor time
        that it took. Empty while another estimate is under way, and if it takes too long."""
        if self._under_way.locked():
            return {}, 0.0
        async with self._under_way:
            widening = self._residuals.widening

            def work() -> Pass:
                began = time.thread_time()
                breather = _Breather(lambda: self._is_over, MOST_TRIAL_S)
                made = estimate(snapshot, self.run_times, widening, breathe=breather)
                return Pass(made, [], frozenset(), time.thread_time() - began)

            try:
                done = await self.aside(work)
            except TookTooLongError:
                return {}, MOST_TRIAL_S
            except TermOverError:
                return {}, 0.0
            return done.made.jobs, done.spent_s

    async def _load(self) -> None:
        runs = await self._store.recent_runs(RUNS_LOADED)
        self.run_times.add_all(
            (Work(run.user, run.name, run.command, run.gpu_milli, run.limit_s), run.run_ms / 1000)
            for run in runs
            if run.cause in _OWN_END
        )
        for each in await self._store.start_estimates():
            interval = StartInterval(each.earliest_ms, each.expected_ms, each.latest_ms, "")
            if each.started_ms is None:
                self._first[each.job_id] = _First(each, interval, None)
            else:
                self._remember(each.job_id)
                self._residuals.add(each.made_ms, interval, Widening(), each.started_ms)

    async def _estimate(self, term: Term) -> float:
        """One pass; returns the seconds of processor time that it took."""
        ended, self._ended = self._ended, []
        self.run_times.add_all(ended)
        async with term.planning:
            began = time.thread_time()
            snapshot = take(term.picture, term.policy, unmaterialized(term.series))
            taken_s = time.thread_time() - began
        widening, known = self._residuals.widening, frozenset(self._first)

        def work() -> Pass:
            began = time.thread_time()
            made = estimate(snapshot, self.run_times, widening, breathe=_Breather(lambda: self._is_over))
            begun = {task_id.job_id for task_id in snapshot.placed}
            fresh, live = _jobs_that_wait(snapshot, begun)
            return Pass(made, sorted(fresh - known)[:MOST_OPEN], known - live, time.thread_time() - began)

        done = await self.aside(work)
        self._latest = done.made
        self._record(done)
        return taken_s + done.spent_s

    def _record(self, done: "Pass") -> None:
        """The first estimate of each job that has not begun."""
        for job_id in done.gone:
            if self._first.pop(job_id, None) is not None:
                self._dropped.append(job_id)
        for job_id in done.fresh:
            expected = done.made.jobs.get(job_id)
            interval = None if expected is None else expected.interval
            if interval is None or job_id in self._scored or len(self._first) >= MOST_OPEN:
                continue
            ends = (interval.earliest_ms, interval.expected_ms, interval.latest_ms)
            first = StartEstimate(job_id, done.made.made_ms, *ends)
            self._first[job_id] = _First(first, interval, done.made.widening)
            self._made.append(first)

    def _score(self, first: _First, at_ms: int) -> None:
        scored = replace(first.estimate, started_ms=max(at_ms, first.estimate.made_ms))
        assert scored.started_ms is not None
        self._remember(scored.job_id)
        self._started.append((scored.job_id, scored.started_ms))
        if first.widening is not None:
            self._residuals.add(scored.made_ms, first.interval, first.widening, scored.started_ms)
        self._observer.observe_start_estimate(
            scored.horizon.value, inside=scored.is_inside, error_s=abs(scored.error_ms) / 1000
        )

    def _remember(self, job_id: int) -> None:
        self._scored[job_id] = None
        while len(self._scored) > _SCORED_REMEMBERED:
            self._scored.popitem(last=False)

    async def _flush(self, epoch: int) -> None:
        """In transactions of a bounded size; what could not be written is written the next time."""
        while self._made or self._started or self._dropped:
            changes = EstimateChanges(
                self._made[:MOST_WRITTEN], self._started[:MOST_WRITTEN], self._dropped[:MOST_WRITTEN]
            )
            if len(self._made) > MOST_WRITTEN:  # a job's estimate is written before its start
                changes = EstimateChanges(changes.made)
            await self._store.note_start_estimates(epoch, changes)
            del self._made[: len(changes.made)]
            del self._started[: len(changes.started)]
            del self._dropped[: len(changes.dropped)]


class TermOverError(Exception):
    """The term ended during a pass: its thread must not delay the end of the process."""


class TookTooLongError(Exception):
    """An estimate for a preview took longer than its result is worth."""


class _Breather:
    """Lets other threads work every few milliseconds. Raises TermOverError once the term is over, and
    TookTooLongError after `most_s` seconds of processor time of its thread."""

    def __init__(self, is_over: Callable[[], bool], most_s: float = inf) -> None:
        self._is_over = is_over
        self._since = time.perf_counter()
        self._until = time.thread_time() + most_s

    def __call__(self) -> None:
        if time.perf_counter() - self._since >= _WORK_S:
            if self._is_over():
                raise TermOverError
            if time.thread_time() > self._until:
                raise TookTooLongError
            time.sleep(_REST_S)
            self._since = time.perf_counter()


def not_past(expected: ExpectedStart, now_ms: int) -> ExpectedStart:
    """As of now: a moment that has passed is expected any moment."""
    interval = expected.interval
    if interval is None or interval.earliest_ms >= now_ms:
        return expected
    expected_ms, latest_ms = max(now_ms, interval.expected_ms), max(now_ms, interval.latest_ms)
    return ExpectedStart(StartInterval(now_ms, expected_ms, latest_ms, interval.basis))


def unmaterialized(series: SeriesBook) -> dict[int, int]:
    """By array job: tasks that wait for nothing but room, and have no rows yet. Tasks beyond the number that
    may run at once take no room before others of their job have left it."""
    found = {}
    for entry in series:
        timing, spec = entry.job.timing, entry.job.spec
        is_parked = entry.end is not None or (timing is not None and timing.is_parked)
        if spec.series is not None and spec.series.at_once is None and not is_parked and entry.unborn:
            found[entry.job.job_id] = entry.unborn
    return found


def fallback(now_ms: int, starts_at_ms: int, *, reserved: bool) -> StartInterval:
    """Before the first pass that knows a job: its moment by time limits, widened. `reserved`: it starts by
    then at the latest."""
    ahead_ms = max(0, starts_at_ms - now_ms)
    latest_ms = starts_at_ms if reserved else starts_at_ms + ahead_ms // 2
    return StartInterval(now_ms, max(now_ms, starts_at_ms), max(now_ms, latest_ms), "time limits")
