"""What a memory store remembers, and what users may ask of it."""

import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Attempt, Event, Job, JobSpec, TaskBrief
from tgpu.domain.lifecycle import Happening, Status, task_after
from tgpu.domain.node import Node
from tgpu.domain.tenant import DEFAULT_TENANT, Amounts, Limits, Tenant
from tgpu.store import event_data
from tgpu.store.cluster_port import WindowRow
from tgpu.store.demand import demand_by_tenant, the_request
from tgpu.store.port import (
    Changes,
    IdempotencyConflictError,
    IdempotencyKey,
    JobFilter,
    LiveSummary,
    Paging,
    QuotaExceededError,
    StaleVersionError,
    Submitted,
    TenantExistsError,
    Token,
    UnknownTenantError,
)

# As SQLite's lower(): letters beyond ASCII are left as they are.
_FOLD = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(slots=True)
class State:
    epoch: int = 0
    restored: bool = False
    jobs: dict[int, Job] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    attempts: dict[int, list[Attempt]] = field(default_factory=dict)
    """By job, the attempt with number n at index n - 1."""
    holding: set[AttemptId] = field(default_factory=set)
    """The attempts that are live."""
    events: list[Event] = field(default_factory=list)
    """The event with number n at index n - 1."""
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
        event = Event(len(self.events) + 1, at_ms, kind, job.job_id, task_index, data, job.spec.user)
        self.events.append(event)
        return event

    def submit(self, specs: Sequence[JobSpec], at_ms: int, key: IdempotencyKey | None) -> Submitted:
        if key is not None and (key.user, key.key) in self.answers:
            body_digest, job_ids = self.answers[key.user, key.key]
            if body_digest != key.body_digest:
                raise IdempotencyConflictError(
                    f"the key {key.key!r} was used for another request: give this one a key of its own"
                )
            return Submitted(list(job_ids), replayed=True)
        demand = demand_by_tenant((spec.tenant_id, the_request(spec)) for spec in specs)
        self.tenants.update(
            {tenant_id: self._charged(tenant_id, asked) for tenant_id, asked in demand.items()}
        )
        job_ids = list(range(len(self.jobs) + 1, len(self.jobs) + 1 + len(specs)))
        for job_id, spec in zip(job_ids, specs, strict=True):
            job = Job(job_id, spec, task_after(None, Happening.SUBMITTED), at_ms)
            self.jobs[job_id] = job
            self.live.add(job_id)
            self.record(at_ms, Happening.SUBMITTED.value, job, 0, event_data.on_submitted(spec))
        if key is not None:
            self.answers[key.user, key.key] = (key.body_digest, list(job_ids))
        return Submitted(job_ids)

    def _charged(self, tenant_id: str, asked: Amounts) -> Tenant:
        tenant = self.tenants.get(tenant_id)
        if tenant is None:
            raise UnknownTenantError(tenant_id)
        used = tenant.used.plus(asked)
        if (dimension := tenant.limits.exceeded_by(used)) is not None:
            raise QuotaExceededError(tenant, dimension, asked)
        return replace(tenant, used=used)

    def release(self, spec: JobSpec) -> None:
        for tenant_id, freed in demand_by_tenant([(spec.tenant_id, the_request(spec))]).items():
            tenant = self.tenants[tenant_id]
            self.tenants[tenant_id] = replace(tenant, used=tenant.used.minus(freed))

    def request_cancel(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        before = [self.jobs.get(job_id) for job_id in job_ids]
        for job_id in job_ids:
            if job_id in self.live and self.jobs[job_id].cancel_by is None:
                job = self.jobs[job_id] = replace(self.jobs[job_id], cancel_by=by)
                self.record(at_ms, event_data.CANCEL_REQUESTED, job, None, event_data.on_cancel_requested(by))
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
        scanned = self.events[after_seq : after_seq + limit]
        fresh = [self.jobs[event.job_id] for event in scanned if event.kind == Happening.SUBMITTED]
        return Changes(
            seq=scanned[-1].seq if scanned else after_seq,
            submitted=[brief_of(job) for job in fresh if job.status.waits],
            cancels=[
                (event.job_id, str(event.data["by"]))
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
        )

    def put_window(self, window: WindowRow) -> WindowRow:
        self.windows[window.window_id] = window
        self.window_changes[window.window_id] = len(self.events) + 1
        return window

    def terms(self) -> list[Tenant]:
        """Every tenant, without what it uses."""
        return [replace(tenant, used=Amounts()) for _, tenant in sorted(self.tenants.items())]

    def create_tenant(self, tenant: Tenant) -> Tenant:
        if tenant.parent_id is not None and tenant.parent_id not in self.tenants:
            raise UnknownTenantError(tenant.parent_id)
        if tenant.tenant_id in self.tenants:
            raise TenantExistsError(f"there is a tenant {tenant.tenant_id!r} already")
        self.tenants[tenant.tenant_id] = Tenant(tenant.tenant_id, tenant.weight, tenant.limits)
        self.tenant_changes[tenant.tenant_id] = len(self.events) + 1
        return self.tenants[tenant.tenant_id]

    def rewrite_tenant(
        self, tenant_id: str, weight: int | None, limits: Limits | None, if_version: int | None
    ) -> Tenant:
        tenant = self.tenants.get(tenant_id)
        if tenant is None:
            raise UnknownTenantError(tenant_id)
        if if_version not in (None, tenant.version):
            raise StaleVersionError(tenant.version)
        self.tenants[tenant_id] = replace(
            tenant,
            weight=tenant.weight if weight is None else weight,
            limits=tenant.limits if limits is None else limits,
            version=tenant.version + 1,
        )
        self.tenant_changes[tenant_id] = len(self.events) + 1
        return self.tenants[tenant_id]


def brief_of(job: Job) -> TaskBrief:
    spec = job.spec
    return TaskBrief(
        job.task_id,
        job.status,
        the_request(spec),
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
        spec.grace_s,
        job.cancel_by,
    )


def is_wanted(job: Job, where: JobFilter, paging: Paging) -> bool:
    spec = job.spec
    return (
        _is_beyond_cursor(job.job_id, paging)
        and (not where.statuses or job.status in where.statuses)
        and (not where.users or spec.user in where.users)
        and where.tenant_id in (None, spec.tenant_id)
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
