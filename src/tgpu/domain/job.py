"""What was asked (a job, its groups, their requests), and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tgpu.domain.container import Container
from tgpu.domain.dialect import Dialect
from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.index_set import Range
from tgpu.domain.lifecycle import AttemptState, Cause, Status
from tgpu.domain.needs import Need, NeedKind
from tgpu.domain.output_files import OutputFiles
from tgpu.domain.priority import PriorityClass
from tgpu.domain.retries import Retries
from tgpu.domain.series import Mode, Series
from tgpu.domain.signals import Warn
from tgpu.domain.snapshot import Snapshot
from tgpu.domain.timing import Timing
from tgpu.domain.use import Use


class LabelOp(StrEnum):
    """How a label is compared; the last four read the label as a number."""

    IN = "in"
    NOT_IN = "not-in"
    EXISTS = "exists"
    ABSENT = "absent"
    ABOVE = "gt"
    BELOW = "lt"
    AT_LEAST = "ge"
    AT_MOST = "le"


@dataclass(frozen=True, slots=True)
class LabelRule:
    """`zone in (a, b)`, `ssd exists`, `gpu-memory ge 40`."""

    key: str
    op: LabelOp
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What one task reserves; tasks with equal requests are of one kind."""

    cpu_milli: int = 1000
    memory_mib: int = 0
    disk_mib: int = 0
    gpu_milli: int = 0
    gpu_type: str | None = None
    exclusive: bool = False
    pool: str | None = None
    node_id: str | None = None
    """The only node it may run on: set when its working directory exists nowhere else."""
    user: str | None = None
    """Whose processes these are: an agent that is not root runs only its own user's."""
    node_selector: tuple[tuple[str, str], ...] = ()
    node_rules: tuple[LabelRule, ...] = ()
    """What the node's labels must be like, beyond equality."""
    tolerations: tuple[str, ...] = ()
    """Taints it puts up with: `key`, `key=value`, or `*` for all."""
    generic: tuple[tuple[str, int], ...] = ()
    """Named resources, sorted by name: of the node, or of the cluster (licences) where it has such a name."""
    gpu_memory_mib: int = 0
    """With `gpu_milli`: the least memory each device must have. Without: this much of one shared device."""
    gpu_types_barred: tuple[str, ...] = ()
    """Models that it may not have, written small, as parts of their names: its tenant's quota counts them,
    and the job did not ask for them by name."""


@dataclass(frozen=True, slots=True)
class Gang:
    """Tasks that run whole or not at all: every task of the job carries an equal one."""

    size: int
    """How many tasks there are, over all groups."""
    per_node: int | None = None
    """At most so many of them on one node; None: as many as fit."""
    topology: str | None = None
    """A label (`rack`) whose value must be the same on all their nodes."""
    repairs: bool = True
    """Whether one that was lost is replaced while the others run on; else all of them start anew."""
    over: int = 0
    """How many of its tasks were over when this was read; the others are to be known."""
    nodes: int | None = None
    """On so many nodes, each of which gets `per_node` of them; None: on as many as it takes."""


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that are alike: what each runs and what each reserves."""

    command: tuple[str, ...] | str
    request: Request
    name: str = "main"
    tasks: int = 1
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    secret_env: Mapping[str, str] = field(default_factory=dict)
    """Variables by where their values are found when it starts: `store:NAME`, or `file:PATH` on its node."""
    container: Container | None = None
    """What each runs in; None: as a process of its node."""
    cpu_limit_milli: int | None = None
    """What each may use at most; None: what it reserves, or of a whole node everything."""
    memory_limit_mib: int | None = None
    """The same of memory; who reserves none has no limit."""

    @property
    def cpu_most_milli(self) -> int:
        """0: as much as there is."""
        if self.cpu_limit_milli is not None:
            return self.cpu_limit_milli
        return 0 if self.request.exclusive else self.request.cpu_milli

    @property
    def memory_most_mib(self) -> int:
        if self.memory_limit_mib is not None:
            return self.memory_limit_mib
        return 0 if self.request.exclusive else self.request.memory_mib


class OnReturn(StrEnum):
    """Which attempt goes on when a node that counted as lost is heard again, and another one runs by then."""

    LONGEST = "longest"
    REPLACEMENT = "replacement"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A job as it was asked for, once; never changed afterwards."""

    user: str
    groups: tuple[Group, ...]
    name: str = ""
    tenant_id: str = "default"
    priority_class: PriorityClass = PriorityClass.DEFAULT
    priority: int = 0
    time_limit_s: int | None = None
    max_wait_s: int | None = None
    requeue: bool = True
    """Whether a task that died with its machine is tried again."""
    grace_s: int | None = None
    """Overrides the class's grace between SIGTERM and SIGKILL."""
    on_return: OnReturn = OnReturn.LONGEST
    once: bool = False
    """At most one live attempt, ever: one that is cut off from all servers is frozen in time."""
    pty: bool = False
    """It has a terminal of its own, to which people attach; else its stdin is /dev/null."""
    shared_tmp: bool = False
    """Its tasks use their node's own /tmp and /dev/shm, where others have private ones."""
    gang: Gang | None = None
    """Its tasks run whole or not at all; None: each for itself."""
    fail_together: bool = True
    """Of a gang: once one of its tasks fails, the others are stopped; if one is lost, all start anew."""
    stop_signal: str | None = None
    """What its tasks get before SIGKILL, by its name without SIG; None: SIGTERM."""
    warn: Warn | None = None
    """A signal some time before their time limit."""
    dialect: Dialect | None = None
    """The language that it came in, if that was not tgpu's own."""
    needs: tuple[Need, ...] = ()
    """Other jobs that it waits for."""
    timing: Timing | None = None
    """As it was asked for: what became of holds and needs the job's row knows."""
    series: Series | None = None
    """Its tasks are many, alike and independent; then it has one group."""
    retries: Retries | None = None
    """What becomes of tasks that fail; None: they have failed."""
    active_deadline_s: int | None = None
    """How long after its submission, or after it was resumed, it may be under way at all."""
    ttl_after_finished_s: int | None = None
    """How long after its end it is remembered."""
    files: OutputFiles | None = None
    """Where its tasks' output is written besides; None: nowhere."""
    snapshot: Snapshot | None = None
    """The copy of its code that its tasks run in; None: what is in its directory when they start."""
    again_of: int | None = None
    """The job that this one does once more, or some tasks of it; None: it is nobody's repetition."""

    @property
    def task_count(self) -> int:
        """Tasks are numbered from zero, over all groups in their order."""
        return sum(group.tasks for group in self.groups)

    @property
    def first_born(self) -> int:
        """How many tasks have rows at once. Behind another array, more would only take up quota."""
        if self.series is None:
            return self.task_count
        goes_behind = any(need.kind is NeedKind.CORR for need in self.needs)
        return 1 if goes_behind else self.series.first_born

    @property
    def is_followed(self) -> bool:
        """Whether whoever schedules keeps a book of the job as a whole."""
        return self.series is not None or self.active_deadline_s is not None

    @property
    def is_work_queue(self) -> bool:
        return self.series is not None and self.series.mode is Mode.WORK_QUEUE

    def index_at(self, position: int) -> int:
        """By which people know the task at this position."""
        return position if self.series is None else self.series.indices.at(position)

    def group_index_of(self, task_index: int) -> int:
        first = 0
        for index, group in enumerate(self.groups):
            first += group.tasks
            if task_index < first:
                return index
        raise IndexError(f"a job of {first} tasks has no task {task_index}")

    def group_of(self, task_index: int) -> Group:
        return self.groups[self.group_index_of(task_index)]

    def gang_now(self, over: int) -> Gang | None:
        """What each of its live tasks knows of its gang, of which so many are over."""
        return None if self.gang is None else replace(self.gang, repairs=not self.fail_together, over=over)


@dataclass(frozen=True, slots=True)
class TaskBrief:
    """What scheduling has to know of a live task, and no more: 100,000 of these are in memory."""

    task_id: TaskId
    status: Status
    request: Request
    user: str
    tenant_id: str
    name: str
    priority_class: PriorityClass
    priority: int
    submitted_ms: int
    attempts: int
    """How many attempts there were: the next one's number is one more."""
    time_limit_s: int | None
    max_wait_s: int | None
    requeue: bool
    grace_s: int | None
    cancel_by: str | None
    gang: Gang | None = None
    held: bool = False
    """Accepted beyond its tenant's quota: it starts only once the quota admits it."""
    burst: bool = False
    """Runs on burst quota: gives way before everybody else."""
    eligible_ms: int = 0
    """Not to be started before this moment (backoff after a preemption)."""
    checkpoint_ms: int | None = None
    """When it last saved its work, if it said so."""
    timing: Timing | None = None
    failures: int = 0
    """How many of its attempts failed and count."""
    retries: Retries | None = None
    command: str = ""
    """The signature of its job's command: tells which jobs are similar."""

    def moved(self, status: Status, attempts: int) -> "TaskBrief":
        """`dataclasses.replace`, several times faster: every start and every end does this."""
        return TaskBrief(
            self.task_id,
            status,
            self.request,
            self.user,
            self.tenant_id,
            self.name,
            self.priority_class,
            self.priority,
            self.submitted_ms,
            attempts,
            self.time_limit_s,
            self.max_wait_s,
            self.requeue,
            self.grace_s,
            self.cancel_by,
            self.gang,
            self.held,
            self.burst,
            self.eligible_ms,
            self.checkpoint_ms,
            self.timing,
            self.failures,
            self.retries,
            self.command,
        )


@dataclass(frozen=True, slots=True)
class Exit:
    """How one attempt's process ended, as its supervisor recorded it."""

    cause: Cause
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    started_ms: int | None = None
    ended_ms: int = 0
    cpu_ms: int = 0
    peak_memory_mib: int = 0
    gpu_ms: int | None = None
    """Busy milliseconds of its devices, added up; None if nobody measured."""
    memory_limit_mib: int | None = None
    """What it was held to; None: nothing, or nobody says."""
    checkpoint_ms: int | None = None
    """When it last saved its work, if it ever said so."""
    use: Use | None = None
    """What it did with what it had; None of one that was over at once."""
    kept_tmp: str = ""
    """Where its node keeps its private /tmp for a while after a failure; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a task: where, on which devices, from when to when, and its end."""

    attempt_id: AttemptId
    state: AttemptState
    node_id: str
    devices: tuple[int, ...]
    assigned_ms: int
    started_ms: int | None = None
    exit: Exit | None = None
    stop_cause: Cause | None = None
    stop_by: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the store knows it now."""

    job_id: int
    spec: JobSpec
    status: Status
    submitted_ms: int
    cause: Cause | None = None
    detail: str = ""
    exit_code: int | None = None
    node_id: str | None = None
    devices: tuple[int, ...] = ()
    attempts: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    cancel_by: str | None = None
    """Who asked for it to be cancelled, once somebody has."""
    held: bool = False
    """It waits until its tenant's quota admits it."""
    counts: Mapping[Status, int] | None = None
    """Of a job of several tasks: how many are in each status. Of one task: None, the status tells it."""
    timing: Timing | None = None
    """When it may start and must be over, and what holds it back."""
    born: int | None = None
    """Of a series: how many of its tasks have rows; None: all."""
    dropped: int = 0
    """How many that had none will never be: the job was over before."""
    failures: int = 0
    """Of a job of several tasks: how many attempts failed and count."""
    skipped: tuple[tuple[str, tuple[Range, ...]], ...] = ()
    """Of a series: who cancelled which positions before they had rows."""

    @property
    def task_id(self) -> TaskId:
        """The first one, of most jobs the only one."""
        return TaskId(self.job_id, 0)

    @property
    def task_counts(self) -> Mapping[Status, int]:
        return {self.status: 1} if self.counts is None else self.counts


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task of a job as the store knows it now."""

    task_id: TaskId
    group: str
    status: Status
    attempts: int
    attempt: Attempt | None = None
    """The one that it goes on with, or its last."""
    cause: Cause | None = None
    """Why it was closed without having run, if it was."""
    detail: str = ""
    checkpoint_ms: int | None = None
    """When it last saved its work, if it said so."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job, in the order it was committed."""

    seq: int
    at_ms: int
    kind: str
    job_id: int
    task_index: int | None = None
    data: Mapping[str, object] = field(default_factory=dict)
    user: str = ""
    """Whose job it is, so that a feed can be filtered without a second look."""
