"""What server and agent say to each other.

Everything may arrive late, twice or never: orders are repeated until a report shows them carried out,
reports are repeated until they are acknowledged, and each side takes the same message twice without harm.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from tgpu.domain.container import Container
from tgpu.domain.dialect import Dialect
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.log_times import LogTimes
from tgpu.domain.node import Capacity, DeviceSigns
from tgpu.domain.output_files import OutputPaths
from tgpu.domain.priority import PriorityClass
from tgpu.domain.signals import TERM, Warn
from tgpu.domain.snapshot import Snapshot
from tgpu.protocol.gangs import GangPlace, Go, Spot
from tgpu.protocol.shells import (
    CloseShell,
    OpenShell,
    ResizeShell,
    ShellInput,
    ShellOpened,
    ShellOutput,
    ShellOver,
    Taken,
)
from tgpu.protocol.snapshots import SnapshotPart, WantSnapshot

PROTOCOL = 2
LONGEST_SHORTAGE = 500
"""So many characters of what an agent says of its disk are taken."""


class Phase(StrEnum):
    """Where an attempt stands, seen from its node."""

    STARTING = "starting"
    READY = "ready"
    """Of a gang: prepared, and started once all of it is."""
    RUNNING = "running"
    ENDED = "ended"


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """The whole truth a node has about one attempt; a later phase replaces an earlier one."""

    attempt: str
    phase: Phase
    started_ms: int | None = None
    exit: Exit | None = None
    note: str = ""
    """Of one that is starting: what it is about."""
    spot: Spot | None = None
    """Of a gang, once it is prepared: where the others reach it."""
    master: Spot | None = None
    """Of a gang, once it was told to go: where they meet."""
    checkpoint_ms: int | None = None
    """When its task last saved its work, by the node's clock."""


class NodeUse(msgspec.Struct, frozen=True, kw_only=True):
    """What is in use on the node right now, measured."""

    cpu_milli: int = 0
    memory_mib: int = 0
    gpu_percent: tuple[int | None, ...] = ()
    """Of each device that is offered; None of one that does not tell."""
    gpu_memory_mib: tuple[int | None, ...] = ()
    gpu_signs: tuple[DeviceSigns, ...] = ()


# Agent → server


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The answer to a greeting: who this is, what it has, and every attempt it knows."""

    protocol: int
    node_id: str
    boot_id: str
    version: str
    capacity: Capacity
    pool: str
    labels: Mapping[str, str]
    serves: str
    attempts: tuple[AttemptReport, ...]
    taints: tuple[str, ...] = ()
    key: str = ""
    """What this node was given when it joined; not needed on the server's own machine."""
    clock_ms: int = 0
    """What the node's clock says now: the times in its reports are read by it."""
    shells: bool = False
    """Whether it knows of shells: an older agent would take the word for a broken stream."""
    gangs: bool = False
    """Whether it only prepares the tasks of gangs: an older agent would start them at once."""
    snapshots: bool = False
    """Whether it knows of snapshots and of output files: an older agent would start tasks without."""
    shared_tmp: bool = False
    """Whether it can start tasks with the node's own /tmp: an older agent would give them a private one."""
    keys: bool = False
    """Whether its tasks need keys to speak to the servers: no server's socket is beside them."""
    instance: str = ""
    """Of this process: made when it started, and nowhere kept."""
    last_sessions: tuple[int, ...] | None = None
    """The last session in which the node was admitted (0: none), then those in which it may have been since;
    None: this agent keeps no record."""
    disk_shortage: str = ""
    """Why its disk lets it start nothing new, in words; empty: it does."""


class KnowsNewer(msgspec.Struct, frozen=True, kw_only=True, tag="knows-newer"):
    """The answer to a greeting with an older epoch than this node has obeyed: it obeys none of it. The server
    was deposed, and finds out by itself; or its store was put back from a copy, and nobody told it."""

    node_id: str
    epoch: int
    """The newest that this node has obeyed."""
    key: str = ""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, tag="heartbeat"):
    use: NodeUse
    sent: float = 0.0
    """On the agent's own clock; comes back in `Heard`."""
    capacity: Capacity | None = None
    """Said only when it changed (a device fell ill, say)."""
    labels: Mapping[str, str] | None = None
    """Said only when they changed (its container engine is back, say)."""
    disk_shortage: str = ""
    """As in Hello; said in every heartbeat while it lasts."""


class Report(msgspec.Struct, frozen=True, kw_only=True, tag="report"):
    seq: int
    attempts: tuple[AttemptReport, ...]
    disk_shortage: str | None = None
    """As in Hello, so that a task whose node has just run out of space is not sent there again; None: not
    said, by an older agent."""


class LogChunk(msgspec.Struct, frozen=True, kw_only=True, tag="log-chunk"):
    """An answer to ReadLog. `offset` is where `data` begins: later than asked if the older part is gone."""

    request: int
    offset: int
    data: bytes
    at_end: bool
    """Nothing follows, and nothing will: the attempt has ended and this was the last of it."""
    error: str = ""
    times: LogTimes = ()
    """When `data` arrived; empty also from an older agent."""


class ImageResolved(msgspec.Struct, frozen=True, kw_only=True, tag="image-resolved"):
    """An answer to ResolveImage."""

    request: int
    pinned: str = ""
    """`NAME@sha256:…`, which every node can fetch; empty if no registry knows it."""
    here: str = ""
    """The id of the image that this node itself has under that name; empty: none."""
    missing: str = ""
    """Why there is no such image, by the registry's own word; empty if it was not asked or did not answer."""


# Server → agent


class Greeting(msgspec.Struct, frozen=True, kw_only=True, tag="greeting"):
    """The server's first word: orders carry this session's number, and only they are obeyed."""

    protocol: int
    cluster_id: str
    epoch: int
    session: int
    servers: tuple[str, ...] = ()
    """Where the servers of this cluster are: whom to ask when this one is gone."""
    lease_s: float = 0.0
    """How long a task that lives at most once may run after a heartbeat was sent that is acknowledged."""


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True, tag="elsewhere"):
    """Another server leads, or none: go there, or ask again shortly if nobody leads."""

    leader: str | None
    servers: tuple[str, ...] = ()
    why: str = ""
    """For the agent's log, if the reason is another: the node waits for approval."""


class Heard(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """A heartbeat arrived at the leader, who has taken in everything that this node said in its hello: what
    follows from it for the node's attempts was ordered before, on the same stream."""

    sent: float


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a node needs to start one attempt."""

    attempt: str
    job_name: str
    user: str
    command: list[str] | str
    cwd: str
    env: Mapping[str, str]
    devices: tuple[int, ...]
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    time_limit_s: int | None
    grace_s: int
    once: bool = False
    """It lives at most once: frozen while no server is heard."""
    pty: bool = False
    """It gets a terminal of its own."""
    shared_tmp: bool = False
    """It uses the node's own /tmp and /dev/shm, where others have private ones."""
    secret_env: Mapping[str, str] = {}
    """Variables whose values the node finds: `file:PATH`. With any other word before the colon there is no
    such secret, and the task cannot start."""
    cpu_limit_milli: int = 0
    """What it may use at most; 0: no limit."""
    memory_limit_mib: int = 0
    disk_mib: int = 0
    """What it reserves, which is also the most that its private /tmp may hold; 0: its node decides."""
    priority_class: PriorityClass = PriorityClass.DEFAULT
    burst: bool = False
    """It runs beyond its tenant's quota, and gives way before others of its class."""
    container: Container | None = None
    gang: GangPlace | None = None
    """It is one of a gang: it is only prepared, and started by `Orders.go`."""
    stop_signal: str = TERM
    """What it gets before SIGKILL."""
    warn: Warn | None = None
    dialect: Dialect | None = None
    """The language that its job came in, if that has variables of its own."""
    files: OutputPaths | None = None
    """Where its output is written besides."""
    snapshot: Snapshot | None = None
    """What it runs in, instead of its directory: fetched from the server under its user's name."""
    key: str = ""
    """By which it speaks for itself; empty: it needs none, or gets none."""
    completion_index: int | msgspec.UnsetType | None = msgspec.UNSET
    """What it finds as JOB_COMPLETION_INDEX. None: it finds none. Unset: the number of its task."""


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    attempt: str
    cause: Cause
    detail: str = ""
    at_once: bool = False
    """SIGKILL, without a grace, also if its grace has begun."""


class Orders(msgspec.Struct, frozen=True, kw_only=True, tag="orders"):
    """What was committed, for this node to carry out."""

    session: int
    launches: tuple[Launch, ...] = ()
    stops: tuple[Stop, ...] = ()
    forget: tuple[str, ...] = ()
    """Attempts the server has no use for: stop them if they live, then drop their records."""
    go: tuple[Go, ...] = ()


class Acknowledge(msgspec.Struct, frozen=True, kw_only=True, tag="acknowledge"):
    """Reports up to this one are committed: what ended in them may be forgotten."""

    session: int
    seq: int


class ReadLog(msgspec.Struct, frozen=True, kw_only=True, tag="read-log"):
    request: int
    attempt: str
    stream: str
    """`stdout` or `stderr`"""
    offset: int
    """A negative one counts from the end."""
    max_bytes: int
    wait_s: float = 0.0
    """How long the node may wait for something new before it answers with nothing."""


class ResolveImage(msgspec.Struct, frozen=True, kw_only=True, tag="resolve-image"):
    """What the name of an image means now."""

    request: int
    image: str
    local: bool = False
    """Only whether the node itself has it."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The server will not have this agent; the sentence says why."""

    why: str


FromAgent = (
    Hello
    | KnowsNewer
    | Heartbeat
    | Report
    | LogChunk
    | ImageResolved
    | WantSnapshot
    | ShellOpened
    | ShellOutput
    | Taken
    | ShellOver
)
FromServer = (
    Greeting
    | Elsewhere
    | Heard
    | Orders
    | Acknowledge
    | ReadLog
    | ResolveImage
    | SnapshotPart
    | Refused
    | OpenShell
    | ShellInput
    | ResizeShell
    | Taken
    | CloseShell
)
