"""What the live scheduler can tell about now: answers, not records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tgpu.domain.ids import AttemptId, TaskId
from tgpu.domain.lifecycle import AttemptState
from tgpu.domain.node import DeviceSigns, Node
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quota import Amounts
from tgpu.domain.start_estimate import StartInterval


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that stands between a task and its start: a code for programs, a sentence for people."""

    code: str
    text: str
    data: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has what a waiting task needs."""

    job_id: int
    user: str
    name: str
    gpu_milli: int
    devices: tuple[int, ...]
    node_id: str
    running_s: float | None
    remaining_s: float | None
    """By its time limit, if it has one."""
    gpu_memory_mib: int = 0
    """Of one GPU, if it was asked for by memory: then `gpu_milli` is 0."""
    licences: tuple[tuple[str, int], ...] = ()
    """How many it has of those that the waiting task lacks."""
    cpu_milli: int = 0
    """This and the following: what it has of amounts that the waiting task lacks; 0 of all others."""
    memory_mib: int = 0
    disk_mib: int = 0
    generic: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Advice:
    """The smallest change to a job with which it would start now, or once others have given way to it."""

    field: str
    """Of the request, the gang or the task, as these name it: `gpu_milli`, `topology`, `time_limit_s`."""
    now: object
    instead: object
    text: str


@dataclass(frozen=True, slots=True)
class Why:
    """The whole answer to "why does my job wait?"."""

    job_id: int
    waiting: bool
    summary: str
    reasons: tuple[Reason, ...] = ()
    holders: tuple[Holder, ...] = ()
    position: int | None = None
    """1 for the first in its queue: its class's or, where tenants take turns, its tenant's in the class.
    Who has a reservation stands before the queue: then it is its place among those."""
    starts_at_ms: int | None = None
    """When it starts by what is known now; None if nothing is known."""
    estimate: str | None = None
    """The same in words, and how sure it is."""
    advice: Advice | None = None
    start: StartInterval | None = None
    """When it is expected to start, with an interval."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """One GPU now: how much of it is given out, to whom, and what was measured."""

    index: int
    allocated_milli: int
    holders: tuple[tuple[int, str], ...] = ()
    """(job id, user)"""
    busy_percent: int | None = None
    memory_used_mib: int | None = None
    signs: DeviceSigns = field(default_factory=DeviceSigns)


@dataclass(frozen=True, slots=True)
class NodeView:
    node: Node
    allocated: Amounts
    devices: tuple[DeviceView, ...]
    running: tuple[AttemptId, ...]
    silent_s: float | None
    """Since it was last heard; None while it is connected."""
    used_cpu_milli: int | None = None
    used_memory_mib: int | None = None
    allocated_generic: Mapping[str, int] = field(default_factory=dict)
    """Of the named resources that it has, what attempts hold."""
    copy: str = ""
    """An agent with a copy of its identity was refused lately: where, and what to do."""
    fault: str = ""
    """What is wrong with what its agent says, if anything: then parts of this may be missing."""
    disk_shortage: str = ""
    """Why its disk lets it start nothing new; empty: it does."""


@dataclass(frozen=True, slots=True)
class NodeTask:
    """A task that holds resources of a node."""

    attempt_id: AttemptId
    user: str
    tenant_id: str
    name: str
    priority_class: PriorityClass
    devices: tuple[int, ...]
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    state: AttemptState
    since_ms: int
    """Since it runs; while it starts, since it was assigned."""
    time_limit_s: int | None = None


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """One node with the tasks on it."""

    view: NodeView
    tasks: tuple[NodeTask, ...]


@dataclass(frozen=True, slots=True)
class QueueView:
    """The tasks of one tenant and class that wait."""

    tenant_id: str
    priority_class: PriorityClass
    depth: int
    head_job_id: int | None
    weighted_share: float
    """The tenant's dominant share, divided by its weight: the smallest is served first."""
    dominant_share: float = 0.0
    """The largest part that the tenant, with all below it, has of anything on ready and draining nodes."""
    head_reasons: tuple[Reason, ...] = ()
    """Why the first of them waits."""


@dataclass(frozen=True, slots=True)
class TenantShare:
    """What a tenant, with all tenants below it, holds now."""

    tenant_id: str
    dominant_share: float
    """The largest part that it has of anything on ready and draining nodes."""
    dominant_resource: str
    """Which resource that is: `cpu`, `memory`, `gpu` or `other`; empty if it holds nothing."""
    held: Amounts


@dataclass(frozen=True, slots=True)
class ClusterShares:
    total: Amounts
    """Of ready and draining nodes."""
    tenants: tuple[TenantShare, ...] = ()


class StartKind(StrEnum):
    RESERVATION = "reservation"
    """A backfill reservation."""
    CLAIM = "claim"
    """Room that preempted attempts are leaving."""


@dataclass(frozen=True, slots=True)
class PlannedStart:
    """A pending task with the node and devices that are kept for it."""

    kind: StartKind
    task_id: TaskId
    user: str
    tenant_id: str
    name: str
    node_id: str
    devices: tuple[int, ...]
    at_ms: int
    """When it starts at the latest."""
    until_ms: int
    """When it ends at the latest, by its time limit or its pool's default."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that is wrong now and does not mend itself."""

    name: str
    text: str
    """What is wrong, and what to do."""
    since_ms: int
    tenants: tuple[str, ...] = ()
    """Of whom it speaks: for those who may know of them all."""


@dataclass(frozen=True, slots=True)
class Quantiles:
    """How many values there are, and their percentiles; None without any."""

    count: int = 0
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None
