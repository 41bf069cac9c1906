"""The one table of legal moves per thing: job, task, attempt, node.

`docs/lifecycle.md` is drawn from these tables. A move that is not here cannot be committed.
"""

from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """Where a task stands; a job stands where its tasks do (`job_status.py`)."""

    PENDING = "pending"
    SCHEDULED = "scheduled"
    RUNNING = "running"
    PREEMPTED = "preempted"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in FINAL

    @property
    def holds_resources(self) -> bool:
        return self in HOLDING

    @property
    def waits(self) -> bool:
        return self in WAITING


class Happening(StrEnum):
    """What can happen to a task, in the past tense; also the name of the event that records it."""

    SUBMITTED = "submitted"
    ASSIGNED = "assigned"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REQUEUED = "requeued"
    PREEMPTED = "preempted"
    LOST = "lost"
    RETURNED = "returned"


class AttemptState(StrEnum):
    """Where one try stands: `assigned` is committed and not yet confirmed by its node; `lost` was on a node
    that has been silent for too long: it holds nothing any more, and may still return."""

    ASSIGNED = "assigned"
    RUNNING = "running"
    STOPPING = "stopping"
    LOST = "lost"
    ENDED = "ended"

    @property
    def is_live(self) -> bool:
        """It holds what it was given."""
        return self in LIVE


class AttemptHappening(StrEnum):
    ASSIGNED = "assigned"
    STARTED = "started"
    STOP_ORDERED = "stop-ordered"
    SUPERSEDED = "superseded"
    LOST = "lost"
    RETURNED = "returned"
    ENDED = "ended"
    GONE = "gone"
    """It is over, and its task is not concerned."""


class NodeState(StrEnum):
    READY = "ready"
    DRAINING = "draining"
    OFFLINE = "offline"


class NodeHappening(StrEnum):
    JOINED = "joined"
    FELL_SILENT = "fell-silent"
    HEARD_AGAIN = "heard-again"
    HEARD_AGAIN_DRAINED = "heard-again-drained"
    """It is heard again, and the order to drain it was not taken back meanwhile."""
    DRAIN_ORDERED = "drain-ordered"
    DRAIN_ENDED = "drain-ended"


class Cause(StrEnum):
    """Why an attempt or a job ended: kept apart, so that nobody has to guess from an exit code."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    OUT_OF_MEMORY = "out-of-memory"
    TIME_LIMIT = "time-limit"
    DISK_LIMIT = "disk-limit"
    """Its private /tmp, or its user's checkpoint folders, held more than they may."""
    NODE_LOST = "node-lost"
    REBOOTED = "rebooted"
    DEVICE_LOST = "device-lost"
    SUPERVISOR_LOST = "supervisor-lost"
    CANCELLED = "cancelled"
    COULD_NOT_START = "could-not-start"
    WAITED_TOO_LONG = "waited-too-long"
    PREEMPTED = "preempted"
    SUPERSEDED = "superseded"
    MEMORY_PRESSURE = "memory-pressure"
    """Its node ran short of memory, and it gave way before others there."""
    DISK_PRESSURE = "disk-pressure"
    """Its node ran short of disk space, and it was ended before others there."""
    GANG_BROKEN = "gang-broken"
    """Another task of its gang failed, and it was stopped for that."""
    GANG_RESTARTED = "gang-restarted"
    """Another task of its gang was lost, or did not get ready, and all of them start anew."""
    DEPENDENCY_FAILED = "dependency-failed"
    """A job that it waited for did not end as it had to."""
    DEADLINE = "deadline"
    """It was not over by its deadline, or could not be any more."""
    SUSPENDED = "suspended"
    """Somebody suspended its job: it waits until that is resumed."""
    RESTARTED = "restarted"
    """Somebody asked for it to start anew."""
    JOB_FAILED = "job-failed"
    """Its job has failed as a whole, and it was stopped for that."""
    JOB_DONE = "job-done"
    """Another task of its work queue has finished the work."""

    @property
    def is_infrastructure(self) -> bool:
        """Not the user's doing: tried again if the job allows it."""
        return self in _INFRASTRUCTURE


_INFRASTRUCTURE = (
    Cause.NODE_LOST,
    Cause.REBOOTED,
    Cause.SUPERVISOR_LOST,
    Cause.DEVICE_LOST,
    Cause.MEMORY_PRESSURE,
    Cause.DISK_PRESSURE,
)


class Move(NamedTuple):
    """From where, by what, to where; `source` is None for a beginning."""

    source: StrEnum | None
    happening: StrEnum
    target: StrEnum


TASK_MOVES = (
    Move(None, Happening.SUBMITTED, Status.PENDING),
    Move(Status.PENDING, Happening.ASSIGNED, Status.SCHEDULED),
    Move(Status.PENDING, Happening.CANCELLED, Status.CANCELLED),
    Move(Status.PENDING, Happening.FAILED, Status.FAILED),
    Move(Status.PENDING, Happening.RETURNED, Status.RUNNING),
    Move(Status.PENDING, Happening.SUCCEEDED, Status.COMPLETED),
    Move(Status.SCHEDULED, Happening.STARTED, Status.RUNNING),
    Move(Status.SCHEDULED, Happening.SUCCEEDED, Status.COMPLETED),
    Move(Status.SCHEDULED, Happening.FAILED, Status.FAILED),
    Move(Status.SCHEDULED, Happening.CANCELLED, Status.CANCELLED),
    Move(Status.SCHEDULED, Happening.REQUEUED, Status.PENDING),
    Move(Status.SCHEDULED, Happening.PREEMPTED, Status.PREEMPTED),
    Move(Status.SCHEDULED, Happening.LOST, Status.PENDING),
    Move(Status.SCHEDULED, Happening.RETURNED, Status.RUNNING),
    Move(Status.RUNNING, Happening.SUCCEEDED, Status.COMPLETED),
    Move(Status.RUNNING, Happening.FAILED, Status.FAILED),
    Move(Status.RUNNING, Happening.CANCELLED, Status.CANCELLED),
    Move(Status.RUNNING, Happening.REQUEUED, Status.PENDING),
    Move(Status.RUNNING, Happening.PREEMPTED, Status.PREEMPTED),
    Move(Status.RUNNING, Happening.LOST, Status.PENDING),
    Move(Status.RUNNING, Happening.RETURNED, Status.RUNNING),
    Move(Status.PREEMPTED, Happening.ASSIGNED, Status.SCHEDULED),
    Move(Status.PREEMPTED, Happening.CANCELLED, Status.CANCELLED),
    Move(Status.PREEMPTED, Happening.FAILED, Status.FAILED),
    Move(Status.PREEMPTED, Happening.RETURNED, Status.RUNNING),
    Move(Status.PREEMPTED, Happening.SUCCEEDED, Status.COMPLETED),
)
JOB_MOVES = TASK_MOVES  # a job of one task moves with it; one of several is summed up (`job_status.py`)

ATTEMPT_MOVES = (
    Move(None, AttemptHappening.ASSIGNED, AttemptState.ASSIGNED),
    Move(AttemptState.ASSIGNED, AttemptHappening.STARTED, AttemptState.RUNNING),
    Move(AttemptState.ASSIGNED, AttemptHappening.STOP_ORDERED, AttemptState.STOPPING),
    Move(AttemptState.ASSIGNED, AttemptHappening.SUPERSEDED, AttemptState.STOPPING),
    Move(AttemptState.ASSIGNED, AttemptHappening.LOST, AttemptState.LOST),
    Move(AttemptState.ASSIGNED, AttemptHappening.ENDED, AttemptState.ENDED),
    Move(AttemptState.ASSIGNED, AttemptHappening.GONE, AttemptState.ENDED),
    Move(AttemptState.RUNNING, AttemptHappening.STOP_ORDERED, AttemptState.STOPPING),
    Move(AttemptState.RUNNING, AttemptHappening.SUPERSEDED, AttemptState.STOPPING),
    Move(AttemptState.RUNNING, AttemptHappening.LOST, AttemptState.LOST),
    Move(AttemptState.RUNNING, AttemptHappening.ENDED, AttemptState.ENDED),
    Move(AttemptState.RUNNING, AttemptHappening.GONE, AttemptState.ENDED),
    Move(AttemptState.STOPPING, AttemptHappening.STARTED, AttemptState.STOPPING),
    Move(AttemptState.STOPPING, AttemptHappening.SUPERSEDED, AttemptState.STOPPING),
    Move(AttemptState.STOPPING, AttemptHappening.LOST, AttemptState.LOST),
    Move(AttemptState.STOPPING, AttemptHappening.ENDED, AttemptState.ENDED),
    Move(AttemptState.STOPPING, AttemptHappening.GONE, AttemptState.ENDED),
    Move(AttemptState.LOST, AttemptHappening.RETURNED, AttemptState.RUNNING),
    Move(AttemptState.LOST, AttemptHappening.ENDED, AttemptState.ENDED),
    Move(AttemptState.LOST, AttemptHappening.GONE, AttemptState.ENDED),
)

NODE_MOVES = (
    Move(None, NodeHappening.JOINED, NodeState.READY),
    Move(NodeState.READY, NodeHappening.FELL_SILENT, NodeState.OFFLINE),
    Move(NodeState.READY, NodeHappening.DRAIN_ORDERED, NodeState.DRAINING),
    Move(NodeState.DRAINING, NodeHappening.DRAIN_ENDED, NodeState.READY),
    Move(NodeState.DRAINING, NodeHappening.FELL_SILENT, NodeState.OFFLINE),
    Move(NodeState.OFFLINE, NodeHappening.HEARD_AGAIN, NodeState.READY),
    Move(NodeState.OFFLINE, NodeHappening.HEARD_AGAIN_DRAINED, NodeState.DRAINING),
)

FINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})
HOLDING = frozenset({Status.SCHEDULED, Status.RUNNING})
WAITING = frozenset({Status.PENDING, Status.PREEMPTED})
LIVE = frozenset({AttemptState.ASSIGNED, AttemptState.RUNNING, AttemptState.STOPPING})
ENDINGS = (
    Happening.SUCCEEDED,
    Happening.FAILED,
    Happening.CANCELLED,
    Happening.REQUEUED,
    Happening.PREEMPTED,
)
"""What the end of an attempt may mean for its task."""

TABLES: dict[str, tuple[Move, ...]] = {
    "job": JOB_MOVES,
    "task": TASK_MOVES,
    "attempt": ATTEMPT_MOVES,
    "node": NODE_MOVES,
}


class IllegalMoveError(ValueError):
    """A change that no table allows: a bug in whoever asked for it, never a state of the world."""


_TASK = {(move.source, move.happening): Status(move.target) for move in TASK_MOVES}
_ATTEMPT = {(move.source, move.happening): AttemptState(move.target) for move in ATTEMPT_MOVES}


def task_after(source: Status | None, happening: Happening) -> Status:
    target = _TASK.get((source, happening))
    if target is None:
        raise IllegalMoveError(f"a task that is {source} cannot be {happening}")
    return target


def attempt_after(source: AttemptState | None, happening: AttemptHappening) -> AttemptState:
    target = _ATTEMPT.get((source, happening))
    if target is None:
        raise IllegalMoveError(f"an attempt that is {source} cannot be {happening}")
    return target


def task_sources(happening: Happening) -> frozenset[Status]:
    """From where this may happen to a task: what a conditional update compares with."""
    return frozenset(
        Status(move.source) for move in TASK_MOVES if move.happening is happening and move.source
    )


def attempt_sources(happening: AttemptHappening) -> frozenset[AttemptState]:
    return frozenset(
        AttemptState(move.source) for move in ATTEMPT_MOVES if move.happening is happening and move.source
    )
