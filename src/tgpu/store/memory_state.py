"""What a memory store remembers, and what users may ask of it."""

import string
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Event, Job, JobSpec, TaskBrief
from tgpu.domain.lifecycle import Happening, Status, task_after
from tgpu.domain.node import Node
from tgpu.domain.quota import Standing
from tgpu.domain.tenant import DEFAULT_TENANT, Tenant, is_within
from tgpu.domain.usage import Usage
from tgpu.store import event_data
from tgpu.store.acceptance import accept
from tgpu.store.access_port import Token
from tgpu.store.cluster_port import WindowRow
from tgpu.store.memory_ledger import MemoryBook, MemoryTask
from tgpu.store.port import (
    CancelAsked,
    Changes,
    IdempotencyConflictError,
    IdempotencyKey,
    JobFilter,
    LiveSummary,
    Paging,
    Submitted,
)
from tgpu.store.tenancy import without_use

# As SQLite's lower(): letters beyond ASCII are left as they are.
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(slots=True)
class State:
    epoch: int = 0
    restored: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    tasks: dict[int, MemoryTask] = field(default_factory=dict)
    """By job, the rest of its one task."""
    live: set[int] = field(default_factory=set)
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    """By job, the attempt with number n at index n - 1."""
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
        jobs = accept(ledger.book, specs, ledger.cap(token_id), ledger.shown)
        ledger.write()
        job_ids = list(range(len(self.jobs) + 1, len(self.jobs) + 1 + len(specs)))
        for job_id, (spec, request, standing) in zip(job_ids, jobs, strict=True):
            job = Job(job_id, spec, task_after(None, Happening.SUBMITTED), at_ms)
            self.jobs[job_id] = job
            self.tasks[job_id] = MemoryTask(request, standing, at_ms, token_id=token_id)
            self.live.add(job_id)
            self.record(at_ms, Happening.SUBMITTED.value, job, 0, event_data.on_submitted(spec))
        if key is not None:
            self.answers[key.user, key.key] = (key.body_digest, list(job_ids))
        return Submitted(job_ids, held=self._held(job_ids))

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
        """With how it stands with its tenant's quota, which its task knows."""
        return replace(job, held=True) if self._held([job.job_id]) and job.status.waits else job

    def _held(self, job_ids: Sequence[int]) -> frozenset[int]:
        return frozenset(
            job_id
            for job_id in job_ids
            if job_id in self.live and self.tasks[job_id].standing is Standing.HELD
        )

    def ledger(self) -> MemoryBook:
        return MemoryBook(self.tenants, self.tokens)

    def request_cancel(self, job_ids: Sequence[int], by: str, at_ms: int, *, now: bool) -> list[Job | None]:
        before = [self.job(job_id) for job_id in job_ids]
        for job_id in job_ids:
            if job_id not in self.live:
                continue
            job, task = self.jobs[job_id], self.tasks[job_id]
            if job.cancel_by is None or (now and not task.cancel_now):
                job = self.jobs[job_id] = replace(job, cancel_by=job.cancel_by or by)
                self.tasks[job_id] = replace(task, cancel_now=now)
                data = event_data.on_cancel_requested(by, now=now)
                self.record(at_ms, event_data.CANCEL_REQUESTED, job, None, data)
        return before

    def live_summary(self, up_to_job_id: int) -> LiveSummary:
        sums: dict[Status, tuple[int, int]] = {}
        for job_id in self.live:
            if job_id <= up_to_job_id:
                number, total = sums.get(self.jobs[job_id].status, (0, 0))
                sums[self.jobs[job_id].status] = (number + 1, total + job_id)
        return LiveSummary(sums, {(attempt.attempt_id, attempt.node_id) for attempt in self.live_attempts()})

    def live_attempts(self) -> Iterator[Attempt]:
        for attempt_id in sorted(self.holding):
            yield self.attempts[attempt_id.job_id][attempt_id.number - 1]

    def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        job_id, task_index, number = attempt_id
        tries = self.attempts.get(job_id, []) if task_index == 0 else []
        return tries[number - 1] if 1 <= number <= len(tries) else None

    def put_attempt(self, attempt: Attempt) -> None:
        """The next one of its job, or one that is known."""
        tries = self.attempts.setdefault(attempt.attempt_id.job_id, [])
        tries[attempt.attempt_id.number - 1 : attempt.attempt_id.number] = [attempt]
        if attempt.state.is_live:
            self.holding.add(attempt.attempt_id)
        else:
            self.holding.discard(attempt.attempt_id)

    def changes(self, after_seq: int, limit: int) -> Changes:
        scanned = self.events_after(after_seq, limit)
        fresh = [self.jobs[event.job_id] for event in scanned if event.kind == Happening.SUBMITTED]
        return Changes(
            seq=scanned[-1].seq if scanned else after_seq,
            submitted=[self.brief(job) for job in fresh if job.status.waits],
            cancels=[
                CancelAsked(event.job_id, str(event.data["by"]), bool(event.data.get("now")))
                for event in scanned
                if event.kind == event_data.CANCEL_REQUESTED
            ],
            more=len(scanned) == limit,
            tenants=[tenant for tenant in self.terms() if self.tenant_changes[tenant.tenant_id] > after_seq],
            windows=[
                window
                for window_id, window in self.windows.items()
                if self.window_changes[window_id] > after_seq
            ],
            rearranged=self.rearranged_seq > after_seq,
        )

    def brief(self, job: Job) -> TaskBrief:
        spec, task = job.spec, self.tasks[job.job_id]
        return TaskBrief(
            job.task_id,
            job.status,
            task.request,
            spec.user,
            spec.tenant_id,
            spec.name,
            spec.priority_class,
            spec.priority,
            job.submitted_ms,
            job.attempts,
            spec.time_limit_s,
            spec.max_wait_s,
            spec.requeue,
            0 if task.cancel_now else spec.grace_s,
            job.cancel_by,
            held=task.standing is not Standing.CHARGED,
            burst=task.standing is Standing.BURST,
        )

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
