"""The one way to start, stop and find again what runs on this node."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tgpu.domain.container import Container
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.log_times import LogTimes
from tgpu.domain.output_files import OutputPaths
from tgpu.domain.signals import TERM, Warn
from tgpu.domain.snapshot import Snapshot
from tgpu.runner.disk_words import DISK_FULL
from tgpu.runner.limits import NO_LIMITS, Limits
from tgpu.runner.look import Look
from tgpu.runner.shell_port import Shell, ShellOrder


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One attempt, ready to run: the environment is complete, the user is a name known on this node."""

    attempt: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    user: str
    time_limit_s: int | None
    grace_s: int
    log_cap_bytes: int
    """The most that each of stdout and stderr may keep on disk; the oldest goes first."""
    once: bool = False
    """It lives at most once: it runs only while `heard` moves."""
    pty: bool = False
    """It has a terminal of its own, in place of a stdin from /dev/null."""
    shared_tmp: bool = False
    """It uses the node's own /tmp and /dev/shm, where others have private ones."""
    secret_env: Mapping[str, str] = field(default_factory=dict)
    """Variables whose values are read when it starts, as its user: `file:PATH`."""
    container: Container | None = None
    """What it runs in; None: as a process of this node."""
    gpus: tuple[str, ...] = ()
    """Its devices, by UUID: what its container is to see."""
    hostfile: str = ""
    """A file of this node that its container finds at `HOSTFILE`; empty: it has none."""
    limits: Limits = NO_LIMITS
    stop_signal: str = TERM
    """What it gets before SIGKILL, by its name."""
    warn: Warn | None = None
    """What it gets before its time limit."""
    checkpoint_dir: str = ""
    """A folder of its task's that outlives this attempt, made before it starts; empty: it has none."""
    files: OutputPaths | None = None
    """Where its output is written besides, as its user."""
    snapshot: Snapshot | None = None
    """The copy of its code that it runs in."""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    attempt: str
    started_ms: int


@dataclass(frozen=True, slots=True)
class AttemptEnded:
    """Recorded on disk before it is told."""

    attempt: str
    exit: Exit


@dataclass(frozen=True, slots=True)
class AttemptNoted:
    """How far an attempt is that takes long to start: its image is being fetched, say."""

    attempt: str
    note: str


RunnerEvent = AttemptStarted | AttemptEnded | AttemptNoted

HAD_BEFORE = Exit(
    Cause.NODE_LOST, detail="the node has had an attempt of this name before, which is over and forgotten"
)
"""The end of one that is launched under a name that was used: nothing ran."""


@dataclass(frozen=True, slots=True)
class LogPart:
    """A stretch of an attempt's output; `offset` is later than asked for where the older part is gone."""

    offset: int
    data: bytes
    times: LogTimes = field(default=(), compare=False)
    """When it arrived; not compared, since that differs from run to run."""


def disk_full_exit() -> Exit:
    """Not the task's doing: it is started elsewhere, and no retry is counted."""
    return Exit(Cause.NODE_LOST, detail=DISK_FULL)


class CouldNotPrepareError(Exception):
    """The task cannot start here; the text says why."""

    def __init__(self, why: str, cause: Cause = Cause.COULD_NOT_START) -> None:
        """`cause`: another one if that is not the task's doing."""
        super().__init__(why)
        self.cause = cause


class Runner(Protocol):
    """Launching the same attempt twice runs it once, across restarts too."""

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        """Finds what is here from before (running: AttemptStarted; over, or lost with a reboot or its
        supervisor: AttemptEnded) and from then on calls `on_event` on the event loop."""
        ...

    async def close(self) -> None:
        """Lets go of everything; what runs, runs on."""
        ...

    async def prepare(self, spec: LaunchSpec) -> None:
        """Whatever takes long and can be done before it starts, such as fetching its image: all tasks of a
        gang are prepared before any is launched. Nothing is claimed, and it may never be launched. Raises
        CouldNotPrepareError."""
        ...

    def drop(self, attempt: str) -> None:
        """One that was prepared, or is being, will not be launched. Harmless if nothing was."""
        ...

    def launch(self, spec: LaunchSpec) -> None:
        """Returns at once. What cannot be started ends with Cause.COULD_NOT_START; what was forgotten, and
        may not run again, with HAD_BEFORE."""
        ...

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        """Its stop signal to the whole tree, the attempt's grace, SIGKILL. Harmless if it is already over.
        `at_once`: SIGKILL alone, also if the grace period has begun."""
        ...

    def forget(self, attempt: str) -> None:
        """Drops the record of an attempt that is over (its output stays until it is old)."""
        ...

    def heard(self, stamp_ns: int, lease_s: float) -> None:
        """The leader has this node in its books, and everything that it ordered before was carried out: what
        lives at most once may run for so long after this moment of CLOCK_BOOTTIME, and no longer."""
        ...

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        """None if there is no such output here; a negative offset counts from the end."""
        ...

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:
        """What these use now, as far as they run and can be looked at."""
        ...

    async def open_shell(self, order: ShellOrder) -> Shell:
        """A program inside a running attempt, within what that was given; or the attempt's own terminal.
        Raises ShellRefusedError."""
        ...
