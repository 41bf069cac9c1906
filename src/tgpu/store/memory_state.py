"""What a memory store remembers, and what users may ask of it."""

import string
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tgpu.domain import job_status
from tgpu.domain.command_signature import signature_of
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Event, Job, JobSpec, TaskBrief, TaskView
from tgpu.domain.lifecycle import AttemptState, Happening, Status, task_after
from tgpu.domain.needs import NeedKind, numbered
from tgpu.domain.node import Node
from tgpu.domain.quota import Standing
from tgpu.domain.start_estimate import StartEstimate
from tgpu.domain.tenant import DEFAULT_TENANT, Tenant, is_within, lineage
from tgpu.domain.usage import Usage
from tgpu.store import event_data, timings
from tgpu.store.acceptance import accept
from tgpu.store.access_port import Token
from tgpu.store.attempt_shown import shown
from tgpu.store.cluster_port import WindowRow
from tgpu.store.growth import Skipped
from tgpu.store.job_filter import JobFilter, Paging
from tgpu.store.job_sum import Tally, new_tally
from tgpu.store.lost_run import LostRun, counted
from tgpu.store.memory_ledger import MemoryBook, MemoryTask
from tgpu.store.needs_port import NeedRow, UnknownNeedError
from tgpu.store.port import (
    Changes,
    IdempotencyConflictError,
    IdempotencyKey,
    LiveSummary,
    Submitted,
    TrialSubmission,
)
from tgpu.store.series_port import RestartAsked
from tgpu.store.task_paging import StatusRun, TaskPaging, runs_of
from tgpu.store.tenancy import without_use

# As SQLite's lower(): letters beyond ASCII are left as they are.
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(slots=True)
class State:
    epoch: int = 0
    restored: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    last_job_id: int = 0
    tallies: dict[int, Tally] = field(default_factory=dict)
    """Of jobs of several tasks."""
    cancel_now: set[int] = field(default_factory=set)
    """Jobs that are to be cancelled without their grace."""
    tasks: dict[TaskId, MemoryTask] = field(default_factory=dict)
    live: set[TaskId] = field(default_factory=set)
    skipped: dict[int, Skipped] = field(default_factory=dict)
    """By job: which of its tasks are to be cancelled once they have rows."""
    attempts: dict[TaskId, list[Attempt]] = field(default_factory=dict)
    """By task, the attempt with number n at index n - 1."""
    holding: set[AttemptId] = field(default_factory=set)
    """The attempts that are live."""
    usage: dict[AttemptId, Usage] = field(default_factory=dict)
    """Of attempts that hold nothing any more."""
    events: list[Event] = field(default_factory=list)
    """In the order of their numbers."""
    last_seq: int = 0
    """The newest number; some are no event's."""
    rearranged_seq: int = 0
    """The number that was used up when tenants were last moved or removed."""
    nodes: dict[str, Node] = field(default_factory=dict)
    tenants: dict[str, Tenant] = field(default_factory=lambda: {DEFAULT_TENANT: Tenant(DEFAULT_TENANT)})
    tenant_changes: dict[str, int] = field(default_factory=lambda: {DEFAULT_TENANT: 1})
    """By tenant: the number of the first event after its last change."""
    windows: dict[int, WindowRow] = field(default_factory=dict)
    window_changes: dict[int, int] = field(default_factory=dict)
    """As of tenants."""
    tokens: dict[int, Token] = field(default_factory=dict)
    changed_seq: dict[int, int] = field(default_factory=dict)
    """By job: the event by which it was last held, released or edited."""
    start_estimates: dict[int, StartEstimate] = field(default_factory=dict)
    """By job: the first estimate of its start."""
    answers: dict[tuple[str, str], tuple[str, list[int]]] = field(default_factory=dict)
    """By user and key: the body's digest and the job ids that were answered."""

    def record(self, at_ms: int, kind: str, job: Job, task_index: int | None, data: event_data.Data) -> Event:
        self.last_seq += 1
        event = Event(self.last_seq, at_ms, kind, job.job_id, task_index, data, job.spec.user)
        self.events.append(event)
        return event

    def events_after(self, seq: int, limit: int | None = None) -> list[Event]:
        first = bisect_right(self.events, seq, key=lambda event: event.seq)
        return self.events[first : None if limit is None else first + limit]

    def submit(
        self, specs: Sequence[JobSpec], at_ms: int, key: IdempotencyKey | None, token_id: int | None
    ) -> Submitted:
        if key is not None and (key.user, key.key) in self.answers:
            return self._replayed(key)
        ledger = self.ledger()
        self._check_needs(specs)
        jobs = accept(ledger.book, specs, ledger.cap(token_id), ledger.shown)
        ledger.write()
        job_ids = list(range(self.last_job_id + 1, self.last_job_id + 1 + len(specs)))
        self.last_job_id += len(specs)
        for job_id, (spec, requests, standing, born) in zip(job_ids, jobs, strict=True):
            spec = replace(spec, needs=numbered(spec.needs, job_ids[0])) if spec.needs else spec  # noqa: PLW2901
            status, number = task_after(None, Happening.SUBMITTED), spec.task_count
            job = Job(job_id, spec, status, at_ms, timing=timings.at_first(spec))
            if number > 1:
                self.tallies[job_id] = new_tally(number, status, work_queue=spec.is_work_queue)
                job = replace(job, counts=self.tallies[job_id].counts, born=born if spec.series else None)
            self.jobs[job_id] = job
            for index in range(born):
                request = requests[spec.group_index_of(index)]
                self.tasks[TaskId(job_id, index)] = MemoryTask(request, standing, at_ms, token_id=token_id)
                self.live.add(TaskId(job_id, index))
                self.record(at_ms, Happening.SUBMITTED.value, job, index, event_data.on_submitted(spec))
        if key is not None:
            self.answers[key.user, key.key] = (key.body_digest, list(job_ids))
        return Submitted(job_ids, held=self._held(job_ids))

    def try_submit(self, specs: Sequence[JobSpec], token_id: int | None) -> TrialSubmission:
        """On a book that is not written."""
        ledger = self.ledger()
        self._check_needs(specs)
        jobs = accept(ledger.book, specs, ledger.cap(token_id), ledger.shown)
        names = sorted({name for spec in specs for name in lineage(spec.tenant_id)})
        levels = {account.tenant_id: account for name in names for account in ledger.of(name).levels}
        return TrialSubmission([job.as_trial for job in jobs], [ledger.shown(levels[name]) for name in names])

    def _check_needs(self, specs: Sequence[JobSpec]) -> None:
        for place, spec in enumerate(specs):
            for need in spec.needs:
                if need.on and not need.within and need.on not in self.jobs:
                    raise UnknownNeedError(place, need.on)

    def needs_of(self, job_ids: Iterable[int]) -> list[NeedRow]:
        jobs = (self.jobs[job_id] for job_id in sorted(set(job_ids)))
        return [
            NeedRow(
                job.job_id, need.on, need.kind, self.jobs[need.on].status if need.on in self.jobs else None
            )
            for job in jobs
            for need in sorted(job.spec.needs, key=lambda need: (need.on, need.kind))
        ]

    def unmet_needs(self, tasks: Iterable[TaskBrief], series: Iterable[Job] = ()) -> list[NeedRow]:
        """Of these jobs, and those of these tasks, that wait for others."""
        waiting = {task.task_id.job_id for task in tasks if task.timing and task.timing.unmet}
        waiting |= {job.job_id for job in series if job.timing and job.timing.unmet}
        rows = self.needs_of(sorted(waiting))
        return [row._replace(ends=self._ends(row.on)) if row.kind is NeedKind.CORR else row for row in rows]

    def _ends(self, job_id: int) -> tuple[tuple[int, Status], ...]:
        tasks = self.tasks_of(job_id) if job_id in self.jobs else []
        return tuple((each.task_index, task.status) for each, task in tasks if task.status.is_final)

    def _replayed(self, key: IdempotencyKey) -> Submitted:
        body_digest, job_ids = self.answers[key.user, key.key]
        if body_digest != key.body_digest:
            raise IdempotencyConflictError(
                f"the key {key.key!r} was used for another request: give this one a key of its own"
            )
        return Submitted(list(job_ids), replayed=True, held=self._held(job_ids))

    def job(self, job_id: int) -> Job | None:
        found = self.jobs.get(job_id)
        return None if found is None else self.shown(found)

    def shown(self, job: Job) -> Job:
        """With how it stands with its tenant's quota, which its task knows, and who of it was cancelled."""
        if (skipped := self.skipped.get(job.job_id)) is not None:
            job = replace(job, skipped=skipped.wishes)
        return replace(job, held=True) if self._held([job.job_id]) and job.status.waits else job

    def _held(self, job_ids: Sequence[int]) -> frozenset[int]:
        firsts = (TaskId(job_id, 0) for job_id in job_ids)
        return frozenset(
            first.job_id
            for first in firsts
            if first in self.live and self.tasks[first].standing is Standing.HELD
        )

    def tasks_of(self, job_id: int) -> list[tuple[TaskId, MemoryTask]]:
        return [(task_id, self.tasks[task_id]) for task_id in self._names_of(job_id)]

    def _names_of(self, job_id: int) -> Iterator[TaskId]:
        """Of those that have rows."""
        job = self.jobs[job_id]
        number = job.spec.task_count if job.born is None else job.born
        return (TaskId(job_id, index) for index in range(number))

    def attempts_of(self, job_id: int, task: int | None = None) -> list[Attempt]:
        if job_id not in self.jobs:
            return []
        if task is not None:
            return list(self.attempts.get(TaskId(job_id, task), ()))
        names = self._names_of(job_id)
        return [attempt for task_id in names for attempt in self.attempts.get(task_id, ())]

    def page_of_tasks(self, job_id: int, paging: TaskPaging) -> list[TaskView]:
        if job_id not in self.jobs:
            return []
        spec = self.jobs[job_id].spec
        wanted = [
            TaskView(
                task_id,
                spec.group_of(task_id.task_index).name,
                task.status,
                task.attempts,
                shown(self.attempts.get(task_id, [])),
                task.cause,
                task.detail,
                task.checkpoint_ms,
            )
            for task_id, task in self.tasks_of(job_id)
            if task_id.task_index > paging.after and (not paging.statuses or task.status in paging.statuses)
        ]
        return wanted[: paging.limit]

    def runs_of_tasks(self, job_id: int) -> list[StatusRun]:
        return runs_of(task.status for _, task in self.tasks_of(job_id)) if job_id in self.jobs else []

    def ledger(self) -> MemoryBook:
        return MemoryBook(self.tenants, self.tokens)

    def request_cancel(self, job_ids: Sequence[int], by: str, at_ms: int, *, now: bool) -> list[Job | None]:
        before = [self.job(job_id) for job_id in job_ids]
        for job_id in job_ids:
            if job_id not in self.jobs or self.jobs[job_id].status.is_final:
                continue
            job = self.jobs[job_id]
            if job.cancel_by is None or (now and job_id not in self.cancel_now):
                job = self.jobs[job_id] = replace(job, cancel_by=job.cancel_by or by)
                if now:
                    self.cancel_now.add(job_id)
                data = event_data.on_cancel_requested(by, job.spec.task_count, now=now)
                self.record(at_ms, event_data.CANCEL_REQUESTED, job, None, data)
        return before

    def live_summary(self, up_to_job_id: int) -> LiveSummary:
        sums: dict[Status, tuple[int, int]] = {}
        for task_id in self.live:
            if task_id.job_id <= up_to_job_id:
                status = self.tasks[task_id].status
                number, total = sums.get(status, (0, 0))
                sums[status] = (number + 1, total + task_id.job_id)
        return LiveSummary(sums, {(attempt.attempt_id, attempt.node_id) for attempt in self.live_attempts()})

    def live_attempts(self) -> Iterator[Attempt]:
        for attempt_id in sorted(self.holding):
            yield self.attempts[attempt_id.task_id][attempt_id.number - 1]

    def lost_attempts(self) -> Iterator[Attempt]:
        for task_id in sorted(self.attempts):
            yield from (each for each in self.attempts[task_id] if each.state is AttemptState.LOST)

    def lost_runs(self, task_id: TaskId) -> tuple[LostRun, ...]:
        """Of a task that is not over."""
        owner, request = self.jobs[task_id.job_id].spec.tenant_id, self.tasks[task_id].request
        runs = map(counted, self.attempts.get(task_id, ()))
        return tuple(LostRun(task_id, owner, request, run) for run in runs if run is not None)

    def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        tries = self.attempts.get(attempt_id.task_id, [])
        return tries[attempt_id.number - 1] if 1 <= attempt_id.number <= len(tries) else None

    def put_attempt(self, attempt: Attempt) -> None:
        """The next one of its task, or one that is known."""
        tries = self.attempts.setdefault(attempt.attempt_id.task_id, [])
        tries[attempt.attempt_id.number - 1 : attempt.attempt_id.number] = [attempt]
        if attempt.state.is_live:
            self.holding.add(attempt.attempt_id)
        else:
            self.holding.discard(attempt.attempt_id)

    def changes(self, after_seq: int, limit: int) -> Changes:
        scanned = self.events_after(after_seq, limit)
        fresh = [
            TaskId(event.job_id, event.task_index or 0)
            for event in scanned
            if event.kind == Happening.SUBMITTED
        ]
        submitted = [self.brief(task_id) for task_id in fresh if self.tasks[task_id].status.waits]
        altered = dict.fromkeys(event.job_id for event in scanned if event.kind in event_data.ALTERING)
        return Changes(
            seq=scanned[-1].seq if scanned else after_seq,
            submitted=submitted,
            cancels=[
                event_data.cancel_asked(event.job_id, event.data)
                for event in scanned
                if event.kind == event_data.CANCEL_REQUESTED and "positions" not in event.data
            ],
            series=self.followed({task_id.job_id for task_id in fresh} | altered.keys()),
            tasks_cancelled=[
                asked
                for event in scanned
                if event.kind == event_data.CANCEL_REQUESTED
                and (asked := event_data.tasks_cancelled(event.job_id, event.data)) is not None
            ],
            restarts=[
                RestartAsked(event.job_id, event.task_index or 0, str(event.data["by"]))
                for event in scanned
                if event.kind == event_data.RESTART_REQUESTED
            ],
            suspended=[event.job_id for event in scanned if event.kind == event_data.SUSPENDED],
            more=len(scanned) == limit,
            tenants=[tenant for tenant in self.terms() if self.tenant_changes[tenant.tenant_id] > after_seq],
            windows=[
                window
                for window_id, window in self.windows.items()
                if self.window_changes[window_id] > after_seq
            ],
            rearranged=self.rearranged_seq > after_seq,
            altered=[
                self.brief(task_id)
                for job_id in altered
                for task_id, task in self.tasks_of(job_id)
                if not task.status.is_final
            ],
            needs=self.unmet_needs(submitted),
        )

    def brief(self, task_id: TaskId) -> TaskBrief:
        job, task = self.jobs[task_id.job_id], self.tasks[task_id]
        spec = job.spec
        return TaskBrief(
            task_id,
            task.status,
            task.request,
            spec.user,
            spec.tenant_id,
            spec.name,
            spec.priority_class,
            spec.priority,
            job.submitted_ms,
            task.attempts,
            spec.time_limit_s,
            spec.max_wait_s if task.waiting_since_ms == job.submitted_ms else None,
            spec.requeue,
            0 if job.job_id in self.cancel_now else spec.grace_s,
            job.cancel_by or task.cancel_by,
            spec.gang_now(job_status.over(job.task_counts)),
            held=task.standing is not Standing.CHARGED,
            burst=task.standing is Standing.BURST,
            eligible_ms=max(task.eligible_ms, 0 if job.timing is None else job.timing.begin_ms or 0),
            checkpoint_ms=task.checkpoint_ms,
            timing=job.timing,
            failures=task.failures,
            retries=spec.retries,
            command=signature_of(spec),
        )

    def followed(self, job_ids: Iterable[int]) -> list[Job]:
        """Those of these jobs, and not over, of which whoever schedules keeps a book."""
        jobs = (self.jobs[job_id] for job_id in sorted(job_ids))
        return [job for job in jobs if job.spec.is_followed and not job.status.is_final]

    def restarts(self) -> list[RestartAsked]:
        asked = ((task_id, self.tasks[task_id].restart_by) for task_id in sorted(self.live))
        return [RestartAsked(*task_id, by) for task_id, by in asked if by is not None]

    def forget(self, job_id: int) -> None:
        """As if it had never been, but for what it used."""
        for task_id, _ in self.tasks_of(job_id):
            del self.tasks[task_id]
            self.attempts.pop(task_id, None)
        self.events = [event for event in self.events if event.job_id != job_id]
        del self.jobs[job_id]
        self.tallies.pop(job_id, None)
        self.skipped.pop(job_id, None)

    def put_window(self, window: WindowRow) -> WindowRow:
        self.windows[window.window_id] = window
        self.window_changes[window.window_id] = self.last_seq + 1
        return window

    def terms(self) -> list[Tenant]:
        """Every tenant, without what it uses."""
        return [without_use(tenant) for _, tenant in sorted(self.tenants.items())]


def is_wanted(job: Job, where: JobFilter, paging: Paging) -> bool:
    spec = job.spec
    return (
        _is_beyond_cursor(job.job_id, paging)
        and (not where.statuses or job.status in where.statuses)
        and (not where.users or spec.user in where.users)
        and where.tenant_id in (None, spec.tenant_id)
        and (where.within is None or is_within(spec.tenant_id, where.within))
        and (where.seen is None or where.seen.has(spec.user, spec.tenant_id))
        and (where.ran is None or where.ran.has(job))
        and (where.name_contains is None or _folded(where.name_contains) in _folded(spec.name))
        and (not where.id_ranges or any(low <= job.job_id <= high for low, high in where.id_ranges))
        and (where.submitted_from_ms is None or job.submitted_ms >= where.submitted_from_ms)
        and (where.submitted_until_ms is None or job.submitted_ms <= where.submitted_until_ms)
        and (
            where.ended_from_ms is None or (job.ended_ms is not None and job.ended_ms >= where.ended_from_ms)
        )
    )


def _is_beyond_cursor(job_id: int, paging: Paging) -> bool:
    if paging.cursor is None:
        return True
    return job_id > paging.cursor if paging.oldest_first else job_id < paging.cursor


def _folded(text: str) -> str:
    return text.translate(_FOLD)
