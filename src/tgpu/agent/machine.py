"""What an agent does, decided: events in, instructions out. No clock, no I/O.

An attempt is launched at most once, whatever is repeated, and what is over is reported until the server
has acknowledged it. One of a gang is only prepared, and launched when it is told to go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.protocol.gangs import Go, Spot
from tgpu.protocol.messages import AttemptReport, Launch, Orders, Phase, Stop
from tgpu.runner.port import HAD_BEFORE, AttemptEnded, AttemptNoted, AttemptStarted, RunnerEvent

REPEAT_AFTER_S = 2.0
REMEMBER_S = 600.0
"""How long a forgotten attempt is still recognised, so that a late copy of its launch starts nothing."""


@dataclass(frozen=True, slots=True)
class LaunchTask:
    launch: Launch
    go: Go | None = None


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """Whatever can be done before it starts; then `Machine.prepared` is to be told."""

    launch: Launch


@dataclass(frozen=True, slots=True)
class DropPrepared:
    """It will not be launched."""

    attempt: str


@dataclass(frozen=True, slots=True)
class StopTask:
    attempt: str
    cause: Cause
    detail: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class ForgetTask:
    attempt: str


@dataclass(frozen=True, slots=True)
class SendReport:
    seq: int
    attempts: tuple[AttemptReport, ...]


Instruction = LaunchTask | PrepareTask | DropPrepared | StopTask | ForgetTask | SendReport


@dataclass(slots=True)
class Known:
    """An attempt this node has, or had and may not forget yet."""

    phase: Phase
    started_ms: int | None = None
    exit: Exit | None = None
    unwanted: bool = False
    """The server has no use for it: gone without a word once it has ended."""
    since: float = 0.0
    prepared: Launch | None = None
    """Of a gang, until it goes: nothing of it runs, and its runner does not know it."""
    spot: Spot | None = None
    master: Spot | None = None
    note: str = ""
    """While it starts: what it is about."""
    checkpoint_ms: int | None = None
    """When its task last saved its work, if it said so."""


@dataclass(slots=True)
class Machine:
    """The whole state of an agent, apart from what runs."""

    session: int | None = None
    attempts: dict[str, Known] = field(default_factory=dict)
    _forgotten: dict[str, float] = field(default_factory=dict)
    _dirty: dict[str, None] = field(default_factory=dict)
    _unacknowledged: dict[int, tuple[float, tuple[tuple[str, Phase], ...]]] = field(default_factory=dict)
    _seq: int = 0

    def adopted(self, found: Iterable[RunnerEvent]) -> None:
        """What was here before this agent came (back) to life."""
        for event in found:
            self.runner_said(event)

    def greeted(self, session: int) -> tuple[AttemptReport, ...]:
        """A new session begins: everything is said anew."""
        self.session = session
        self._unacknowledged.clear()
        self._dirty = dict.fromkeys(self.attempts)
        return tuple(self._report(attempt) for attempt in self.attempts)

    def disconnected(self) -> None:
        self.session = None
        self._unacknowledged.clear()

    def obey(self, orders: Orders, now: float) -> list[Instruction]:
        """Orders of another session are history; repeated ones change nothing."""
        if orders.session != self.session:
            return []
        instructions: list[Instruction] = []
        for launch in orders.launches:
            instructions += self._launch(launch, now)
        for go in orders.go:
            instructions += self._go(go)
        for stop in orders.stops:
            instructions += self._stop(stop)
        for attempt in orders.forget:
            instructions += self._drop(attempt, now)
        return instructions

    def _launch(self, launch: Launch, now: float) -> list[Instruction]:
        if launch.attempt in self._forgotten:
            # A late copy, which the server takes no notice of; or one that waits for it for ever, since it
            # does not know that the name was used: then its store is older than this node.
            del self._forgotten[launch.attempt]
            self.attempts[launch.attempt] = Known(Phase.ENDED, exit=HAD_BEFORE)
        if launch.attempt in self.attempts:
            self._dirty[launch.attempt] = None
            return []
        if launch.gang is not None:
            self.attempts[launch.attempt] = Known(Phase.STARTING, since=now, prepared=launch)
            return [PrepareTask(launch)]
        self.attempts[launch.attempt] = Known(Phase.STARTING, since=now)
        return [LaunchTask(launch)]

    def prepared(self, attempt: str, spot: Spot) -> list[Instruction]:
        """It could start at once; if it still is to."""
        known = self.attempts.get(attempt)
        if known is None or known.prepared is None:
            return [DropPrepared(attempt)]
        known.phase, known.spot = Phase.READY, spot
        self._dirty[attempt] = None
        return []

    def _go(self, go: Go) -> list[Instruction]:
        """Once: who has gone says so."""
        known = self.attempts.get(go.attempt)
        if known is None:
            return []
        self._dirty[go.attempt] = None
        launch = known.prepared
        if launch is None or known.phase is not Phase.READY:
            return []
        known.phase, known.prepared, known.master = Phase.STARTING, None, go.master
        return [LaunchTask(launch, go)]

    def _stop(self, stop: Stop) -> list[Instruction]:
        known = self.attempts.get(stop.attempt)
        if known is None:
            was_here = self._forgotten.pop(stop.attempt, None) is not None
            detail = "it was over before" if was_here else "stopped before it started"
            self.attempts[stop.attempt] = Known(Phase.ENDED, exit=Exit(stop.cause, detail=detail))
        elif known.prepared is not None:
            how = Exit(stop.cause, detail=stop.detail or "stopped before it started")
            known.phase, known.exit, known.prepared = Phase.ENDED, how, None
            self._dirty[stop.attempt] = None
            return [DropPrepared(stop.attempt)]
        if known is None or known.phase is Phase.ENDED:
            self._dirty[stop.attempt] = None
            return []
        return [StopTask(stop.attempt, stop.cause, stop.detail, stop.at_once)]

    def _drop(self, attempt: str, now: float) -> list[Instruction]:
        known = self.attempts.get(attempt)
        if known is None:
            return []
        if known.prepared is not None:
            return [DropPrepared(attempt), *self._forget(attempt, now)]
        if known.phase is Phase.ENDED:
            return self._forget(attempt, now)
        known.unwanted = True
        return [StopTask(attempt, Cause.CANCELLED, "the server does not know this attempt")]

    def runner_said(self, event: RunnerEvent, now: float = 0.0) -> list[Instruction]:
        if event.attempt in self._forgotten:
            return []
        known = self.attempts.setdefault(event.attempt, Known(Phase.STARTING))
        match event:
            case AttemptStarted(started_ms=started_ms) if known.phase is Phase.STARTING:
                known.phase, known.started_ms = Phase.RUNNING, started_ms
            case AttemptEnded(exit=how) if known.phase is not Phase.ENDED:
                known.phase, known.exit, known.prepared = Phase.ENDED, how, None
                known.started_ms = how.started_ms if known.started_ms is None else known.started_ms
            case AttemptNoted(note=note) if known.phase is Phase.STARTING:
                known.note = note
            case _:
                return []
        if known.unwanted and known.phase is Phase.ENDED:
            return self._forget(event.attempt, now)
        self._dirty[event.attempt] = None
        return []

    def running(self) -> list[str]:
        return [attempt for attempt, known in self.attempts.items() if known.phase is Phase.RUNNING]

    def saved(self, found: Mapping[str, int]) -> None:
        """When tasks last saved their work, by attempt: worth a word if it is news."""
        for attempt, at_ms in found.items():
            known = self.attempts.get(attempt)
            if known is not None and known.phase is Phase.RUNNING and known.checkpoint_ms != at_ms:
                known.checkpoint_ms = at_ms
                self._dirty[attempt] = None

    def acknowledged(self, session: int, seq: int, now: float) -> list[Instruction]:
        """Committed: what had ended by then need not be remembered any longer."""
        if session != self.session or seq not in self._unacknowledged:
            return []
        _, reported = self._unacknowledged.pop(seq)
        instructions: list[Instruction] = []
        for attempt, phase in reported:
            if phase is Phase.ENDED and attempt in self.attempts:
                instructions += self._forget(attempt, now)
        return instructions

    def _forget(self, attempt: str, now: float) -> list[Instruction]:
        del self.attempts[attempt]
        self._dirty.pop(attempt, None)
        self._forgotten[attempt] = now
        return [ForgetTask(attempt)]

    def report(self, now: float) -> list[Instruction]:
        """Everything that changed since the last report, in one."""
        if self.session is None or not self._dirty:
            return []
        reports = tuple(self._report(attempt) for attempt in self._dirty)
        self._dirty.clear()
        self._seq += 1
        self._unacknowledged[self._seq] = (now, tuple((item.attempt, item.phase) for item in reports))
        return [SendReport(self._seq, reports)]

    def tick(self, now: float) -> None:
        """What was not acknowledged in time is due again; a slow start is worth a word."""
        for seq, (sent, reported) in list(self._unacknowledged.items()):
            if now - sent >= REPEAT_AFTER_S:
                del self._unacknowledged[seq]
                self._dirty.update((attempt, None) for attempt, _ in reported if attempt in self.attempts)
        for attempt, known in self.attempts.items():
            if known.phase in (Phase.STARTING, Phase.READY):
                self._dirty[attempt] = None
        for attempt, when in list(self._forgotten.items()):
            if now - when < REMEMBER_S:
                break  # they stand in the order in which they were forgotten
            del self._forgotten[attempt]

    def _report(self, attempt: str) -> AttemptReport:
        known = self.attempts[attempt]
        return AttemptReport(
            attempt=attempt,
            phase=known.phase,
            started_ms=known.started_ms,
            exit=known.exit,
            spot=known.spot,
            master=known.master,
            note=known.note if known.phase is Phase.STARTING else "",
            checkpoint_ms=known.checkpoint_ms,
        )
