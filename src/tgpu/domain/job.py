"""What was asked (a job, its groups, their requests), and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.lifecycle import AttemptState, Cause, Status
from tgpu.domain.priority import PriorityClass


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


@dataclass(frozen=True, slots=True)
class Group:
    """Tasks that are alike: what each runs and what each reserves."""

    command: tuple[str, ...] | str
    request: Request
    name: str = "main"
    tasks: int = 1
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)


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

    @property
    def task_id(self) -> TaskId:
        return TaskId(self.job_id, 0)


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
