"""The one way to durable facts: what every store must do, whichever database is behind it.

Two kinds of writer use it. The API records what users ask for (`submit`, `request_cancel`); the control
loop records what was decided and what was reported (`commit`), fenced by the epoch it claimed. Each field
has one of the two as its writer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.job import Attempt, Event, Exit, Job, JobSpec, Request, TaskBrief, TaskView
from tgpu.domain.lifecycle import Cause, Happening, Status
from tgpu.domain.node import Node
from tgpu.domain.quota import Admission
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import AccessStore
from tgpu.store.cluster_port import ClusterStore, WindowRow
from tgpu.store.estimate_port import EstimateStore
from tgpu.store.job_filter import JobFilter, Paging, Seen
from tgpu.store.job_listing import Listed, Listing, ListPage
from tgpu.store.lost import AttemptGone, AttemptLost, AttemptReturned, Origin, Superseded
from tgpu.store.needs_port import NeedRow, NeedsStore
from tgpu.store.quota_port import QuotaStore
from tgpu.store.refusals import StoreError, StoreFailedError
from tgpu.store.series_port import Dropped, Grown, GrownTo, RestartAsked, SeriesStore, TasksCancelled
from tgpu.store.task_paging import StatusRun, TaskPaging
from tgpu.store.timeline_port import TimelineStore
from tgpu.store.unreadable import Unreadable
from tgpu.store.usage_port import UsageStore

MAX_SEQ = 2**63 - 1
MANY = 100_000


class UnknownTenantError(StoreError):
    def __init__(self, tenant_id: str) -> None:
        super().__init__(f"there is no tenant {tenant_id!r}")
        self.tenant_id = tenant_id


class TenantExistsError(StoreError):
    pass


class ArchivedTenantError(StoreError):
    """It takes no new jobs."""


class StaleVersionError(StoreError):
    """Somebody else changed the row first: read it again, then decide."""

    def __init__(self, current: int) -> None:
        super().__init__(f"the version is {current} by now")
        self.current = current


class IdempotencyConflictError(StoreError):
    """The same key was used for another request."""


class DeposedError(StoreError):
    """Somebody with a newer epoch leads: whoever sees this must stop acting."""


class StoreUnavailableError(StoreFailedError):
    """Nothing can be written now (disk full, database away); its text says what to do."""


class StoreFullError(StoreUnavailableError):
    """The disk that holds the store is full."""


class StoreUnusableError(Exception):
    """The store cannot be opened at all (corrupt, newer version); its text says what to do."""


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """Makes a repeated POST harmless: the same key and body give the first answer again."""

    user: str
    key: str
    body_digest: str


@dataclass(frozen=True, slots=True)
class Submitted:
    job_ids: list[int]
    replayed: bool = False
    held: frozenset[int] = frozenset()
    """Those of them that wait for their tenant's quota."""


class TrialJob(NamedTuple):
    """How one job of a trial submission would be stored."""

    requests: tuple[Request, ...]
    """Of each group, as its tasks would reserve it."""
    held: bool
    """Whether it would wait for its tenant's quota."""
    tasks: int
    """How many tasks would have rows from the beginning."""


@dataclass(frozen=True, slots=True)
class TrialSubmission:
    """What a submission would lead to."""

    jobs: list[TrialJob]
    tenants: list[Tenant]
    """Those that would be charged and all above them, root first, with what they would use afterwards."""


@dataclass(frozen=True, slots=True)
class World:
    """Everything that is live, as of event `seq`."""

    seq: int
    nodes: list[Node]
    tasks: list[TaskBrief]
    attempts: list[Attempt]
    """The live ones only: those that hold something, also for a task that goes on with another attempt (their
    `stop_cause` is `superseded`) or is over."""
    tenants: list[Tenant] = field(default_factory=list)
    """All. What they use is as of now for GPU-hours, and else left at zero: it follows from the tasks."""
    windows: list[WindowRow] = field(default_factory=list)  # that were not cancelled, past ones too
    restored: bool = False
    """It was put back from a copy: nodes may run what it does not know of. True until `settle_restore`."""
    needs: list[NeedRow] = field(default_factory=list)  # of jobs that wait for others
    series: list[Job] = field(default_factory=list)
    """Live jobs of which whoever schedules keeps a book: all series, and who has to be over in time."""
    restarts: list[RestartAsked] = field(default_factory=list)
    """Tasks that are to start anew, and have not left their nodes yet."""
    lost: list[tuple[AttemptId, str]] = field(default_factory=list)  # each lost attempt with its node
    unreadable: Unreadable = field(default_factory=Unreadable)


@dataclass(frozen=True, slots=True)
class LiveSummary:
    """Enough of the live facts to tell whether a picture in memory still agrees, cheaply."""

    tasks: dict[Status, tuple[int, int]]
    """By status that is not final: how many tasks, and the sum of their job ids."""
    attempts: set[tuple[AttemptId, str]]
    """The live ones, each with its node."""


class CancelAsked(NamedTuple):
    job_id: int
    by: str
    now: bool = False  # without their grace
    tasks: int = 1  # of the job, which are all meant


@dataclass(frozen=True, slots=True)
class Changes:
    """What users asked for after some event: `seq` is where the next look begins."""

    seq: int
    submitted: list[TaskBrief]
    cancels: list[CancelAsked]
    more: bool = False
    tenants: list[Tenant] = field(default_factory=list)
    """Those that were created, or given another weight or other limits, as in `World`: never later than the
    first task of such a tenant, and again while `seq` stands still."""
    windows: list[WindowRow] = field(default_factory=list)
    """Those that were created or cancelled, again while `seq` stands still."""
    rearranged: bool = False
    """A tenant was moved or removed: only a fresh `load` tells how things stand."""
    series: list[Job] = field(default_factory=list)
    """Jobs of which whoever schedules keeps a book, and that were submitted, held, released or edited."""
    tasks_cancelled: list[TasksCancelled] = field(default_factory=list)
    restarts: list[RestartAsked] = field(default_factory=list)
    suspended: list[int] = field(default_factory=list)
    """Jobs of which nothing is to run for now."""
    altered: list[TaskBrief] = field(default_factory=list)
    """Of jobs that were held, released or edited: those of their tasks that are not over, as they are now."""
    needs: list[NeedRow] = field(default_factory=list)  # of submitted jobs that wait for others
    unreadable: Unreadable = field(default_factory=Unreadable)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A decision: this attempt belongs on this node, on these devices."""

    attempt_id: AttemptId
    node_id: str
    devices: tuple[int, ...]
    admission: Admission = Admission.CHARGED
    reserve_gpu_ms: int = 0
    """Of its tenant's GPU-hours, if it runs as long as it may: thousandths of a GPU times seconds."""


@dataclass(frozen=True, slots=True)
class Started:
    """A report: the attempt's process runs."""

    attempt_id: AttemptId
    at_ms: int


@dataclass(frozen=True, slots=True)
class StopOrdered:
    """A decision: this attempt is to be stopped."""

    attempt_id: AttemptId
    cause: Cause
    by: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """A report, and what follows from it for the task."""

    attempt_id: AttemptId
    exit: Exit
    happening: Happening
    """succeeded, failed, cancelled, requeued or preempted. Of an attempt that was lost one of the first
    three: its task is over by it, wherever that waits or runs by now."""
    detail: str = ""
    counts: bool = False
    """Whether it failed by its own doing, and is counted for that."""
    eligible_ms: int = 0
    """Of one that waits again: not to be started before."""
    fails_job: str = ""
    """Of one by which its job of several tasks fails as a whole: what that job says of it."""


@dataclass(frozen=True, slots=True)
class TaskClosed:
    """A decision: a task that waits ends without having run (cancelled, or waited too long)."""

    task_id: TaskId
    happening: Happening
    cause: Cause
    detail: str = ""


@dataclass(slots=True)
class Batch:
    """One transaction of the control loop, applied in the order of the fields."""

    at_ms: int
    seen_seq: int = MAX_SEQ
    """Of the feed, what it was decided on: who was held or changed since is not given a node."""
    dropped: list[Dropped] = field(default_factory=list)
    """Applied last but one."""
    grown: list[Grown] = field(default_factory=list)
    """Applied last: what others have left in this transaction is there for these."""
    released: list[int] = field(default_factory=list)
    """Jobs that need not wait for others any more."""
    nodes: list[Node] = field(default_factory=list)
    """Rows to insert or replace."""
    saved: dict[TaskId, int] = field(default_factory=dict)
    """When tasks last saved their work, as nodes reported it; time does not go back."""
    started: list[Started] = field(default_factory=list)
    returned: list[AttemptReturned] = field(default_factory=list)
    superseded: list[Superseded] = field(default_factory=list)
    stop_ordered: list[StopOrdered] = field(default_factory=list)
    ended: list[AttemptEnded] = field(default_factory=list)
    lost: list[AttemptLost] = field(default_factory=list)
    gone: list[AttemptGone] = field(default_factory=list)
    closed: list[TaskClosed] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(
            self.nodes or self.saved or self.released or self.dropped or self.grown or any(self.in_order())
        )

    def in_order(self) -> "tuple[Sequence[Change], ...]":
        """The changes of each kind, as they are applied."""
        return (
            self.started,
            self.returned,
            self.superseded,
            self.stop_ordered,
            self.ended,
            self.lost,
            self.gone,
            self.closed,
            self.assigned,
        )


Change = (
    Started
    | AttemptReturned
    | Superseded
    | StopOrdered
    | AttemptEnded
    | AttemptLost
    | AttemptGone
    | TaskClosed
    | Assigned
)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a commit took, and what it handed back because it no longer held."""

    refused: list[Change]
    events: list[Event]
    specs: dict[int, JobSpec]
    """The jobs of the assignments that were taken, whole, for the launch orders."""
    sums: dict[int, Status] = field(default_factory=dict)
    """Of the jobs of several tasks that it touched: where they stand now."""
    grown: list[GrownTo] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many jobs there are, by status, and live ones by user and status."""

    by_status: dict[Status, int]
    live_by_user: dict[tuple[str, Status], int]


@dataclass(frozen=True, slots=True)
class JobTimes:
    """When a job was submitted, started and ended, as far as it has."""

    submitted_ms: int
    started_ms: int | None
    ended_ms: int | None


class Store(
    ClusterStore,
    AccessStore,
    QuotaStore,
    UsageStore,
    TimelineStore,
    NeedsStore,
    SeriesStore,
    EstimateStore,
    Protocol,
):
    """Every method is one transaction; what it returned has happened, durably."""

    @property
    def cluster_id(self) -> str:
        """Made once with the store: tells two installations apart."""
        ...

    def subscribe(self, wake: Callable[[], None]) -> None:
        """`wake` is called on the event loop after every `submit`, `request_cancel`, `hold`, `release` and
        `edit`, whenever a tenant or a window was created or changed, and whenever who may do what has changed
        (members, tokens), by whichever server, and once whenever something may have been missed."""
        ...

    def subscribe_events(self, wake: Callable[[], None]) -> None:
        """`wake` is called on the event loop after events were written, under the same conditions."""
        ...

    async def close(self) -> None: ...

    # What users ask for: written by the API.

    async def submit(
        self,
        specs: Sequence[JobSpec],
        at_ms: int,
        key: IdempotencyKey | None = None,
        token_id: int | None = None,
    ) -> Submitted:
        """All or none. Charges the quotas from root to leaf, and the caps of the token. Where what is over a
        quota is queued (`Terms.over_quota`, of the nearest tenant that says), jobs are held instead, and
        charged when they start; a job that is more than a whole limit is refused there, too. A job of a class
        that may burst, over the quota of a tenant that may, is held unless it alone is more than the burst,
        half of a limit. A tenant that is archived, or below one that is, takes none. Who waits for others or
        is held counts as any job that waits. Raises QuotaExceededError, TokenSpentError, UnknownTenantError,
        ArchivedTenantError, IdempotencyConflictError, UnknownNeedError."""
        ...

    async def try_submit(self, specs: Sequence[JobSpec], token_id: int | None = None) -> TrialSubmission:
        """What `submit` would do at this moment, by the same rules; nothing is stored. Raises what `submit`
        would raise."""
        ...

    async def request_cancel(
        self, job_ids: Sequence[int], by: str, at_ms: int, *, now: bool = False
    ) -> list[Job | None]:
        """Records the wish on each live job that has none yet; returns every job as it was before, None for
        an unknown id. `now`: it gets no grace (its brief says 0 from then on), also if the wish is older."""
        ...

    # What users see.

    async def job(self, job_id: int) -> Job | None: ...

    async def jobs_by_id(self, job_ids: Sequence[int]) -> list[Job | None]:
        """For each of the different ids its job, if there is one, in one read."""
        ...

    async def jobs(self, where: JobFilter, paging: Paging) -> list[Job]: ...

    async def list_jobs(self, listing: Listing, page: ListPage) -> list[Listed]:
        """Searched and sorted; it may read every job, which `jobs` does not."""
        ...

    async def list_job_ids(self, listing: Listing, page: ListPage) -> list[int]: ...

    async def count_jobs(self, listing: Listing, most: int) -> int:
        """How many a listing has, but not more than `most`."""
        ...

    async def tasks(self, job_id: int, paging: TaskPaging) -> list[TaskView]: ...

    async def task_statuses(self, job_id: int) -> list[StatusRun]:
        """Of all tasks that have rows, in their order."""
        ...

    async def attempts(self, job_id: int, task: int | None = None, most: int = MANY) -> list[Attempt]:
        """Of a job, or of one of its tasks; the first ones."""
        ...

    async def attempt(self, attempt_id: AttemptId) -> Attempt | None: ...

    async def origins(self, attempt_ids: Sequence[AttemptId]) -> dict[AttemptId, Origin]:
        """All of them in one read; those that there are not are missing."""
        ...

    async def events(
        self, after_seq: int = 0, limit: int = 1000, job_id: int | None = None, user: str | None = None
    ) -> list[Event]: ...

    async def last_seq(self) -> int: ...

    async def counts(self, seen: Seen | None = None) -> Counts:
        """Of everybody's jobs, or of those that somebody may know of."""
        ...

    async def recent_times(self, limit: int) -> list[JobTimes]:
        """Of the running jobs submitted last and of the jobs that ended last, at most `limit` of each."""
        ...

    async def nodes(self) -> list[Node]: ...

    # What was decided and what was reported: written by the control loop.

    async def claim(self) -> int:
        """A new epoch, higher than every one before, whoever holds the lease: a campaign that always wins.
        From now on older epochs are refused, and their leases are void."""
        ...

    async def load(self) -> World: ...

    async def live_summary(self, up_to_job_id: int) -> LiveSummary:
        """Of jobs up to this id: younger ones may not have reached the picture yet."""
        ...

    async def changes(self, after_seq: int, limit: int = 5000) -> Changes: ...

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        """Takes each change that the tables of `domain.lifecycle` and the current rows allow, refuses the
        others one by one, writes an event for each one taken. An assignment is refused if its task does not
        wait, if somebody asked to cancel it, if the number is not the next, or if some quota from root to
        leaf has no room for it: for running tasks, for GPU-hours, and, if it was held, for what it reserves.
        It is charged in the same transaction.

        A task goes on with one attempt. One that was superseded is the task's no more: it can only be gone.
        One that was lost can return, be gone, or end its task for good; a task that is over has none that
        returns. An attempt is superseded only if its task is over or has another one, live or lost.

        Releases quota once, when a task reaches a final state, whatever attempts it leaves behind; what it
        had on the burst and the unused part of its GPU-hours already when it leaves its attempt. Raises
        DeposedError if somebody has a newer epoch: a lease that ran out deposes nobody while nobody else has
        won."""
        ...
