"""What really happened, seen from outside of every host: the only witness the checkers believe."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tgpu.domain.ids import AttemptId
from tgpu.domain.job import Exit
from tgpu.sim.trace import Trace
from tgpu.store.port import Batch, Receipt


@dataclass(slots=True)
class Run:
    """The life of one process."""

    attempt: str
    node_id: str
    devices: tuple[int, ...]
    started_s: float
    end: Exit | None = None
    frozen: bool = False

    @property
    def attempt_id(self) -> AttemptId:
        return AttemptId.parse(self.attempt)


class Watcher:
    """Is told of each fact when it happens; a checker overrides what it cares for."""

    def process_started(self, run: Run) -> Iterator[str]:
        """What is wrong with that, in words."""
        del run
        yield from ()

    def process_thawed(self, run: Run) -> Iterator[str]:
        del run
        yield from ()

    def process_ended(self, run: Run) -> Iterator[str]:
        del run
        yield from ()

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> Iterator[str]:
        del epoch, batch, receipt
        yield from ()

    def greeted(self, agent: str, epoch: int) -> Iterator[str]:
        """An agent has put itself under the server of this epoch."""
        del agent, epoch
        yield from ()

    def loaded(self) -> Iterator[str]:
        """The leader reads everything from the store: what it knew beyond that is gone."""
        yield from ()

    def now_and_then(self) -> Iterator[str]:
        yield from ()

    def at_rest(self) -> Iterator[str]:
        """Faults are over, and nothing is left to do (or should be)."""
        yield from ()


class Facts:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.runs: dict[str, list[Run]] = {}
        self.live: dict[str, Run] = {}
        self.acknowledged: dict[int, None] = {}
        self.prepared: set[str] = set()
        """Attempts of gangs that could start at once."""
        self.epoch = 0
        """The newest one that was claimed, and by which server."""
        self.leader = ""
        self.heard: dict[str, list[float]] = {}
        """When each node was heard by whoever led."""
        self.gone: dict[str, float] = {}
        """Nodes that went down, and when, in a run where nothing else keeps anybody from acting."""
        self.drift = 0
        self.ledger_differences = 0
        self.failures: list[str] = []
        """Whatever ended in a way it should not have."""
        self.found: list[tuple[str, str]] = []
        """(checker, what it found)"""
        self.watchers: list[Watcher] = []

    def started(self, run: Run) -> None:
        self._trace.add(run.node_id, f"process {run.attempt} starts on devices {list(run.devices)}")
        self._judge(lambda watcher: watcher.process_started(run))
        self.runs.setdefault(run.attempt, []).append(run)
        self.live[run.attempt] = run

    def ended(self, run: Run, how: Exit) -> None:
        self._trace.add(run.node_id, f"process {run.attempt} ends: {how.cause} {how.exit_code} {how.signal}")
        run.end = how
        if self.live.get(run.attempt) is run:
            del self.live[run.attempt]
        self._judge(lambda watcher: watcher.process_ended(run))

    def froze(self, run: Run) -> None:
        self._trace.add(run.node_id, f"process {run.attempt} is frozen")
        run.frozen = True

    def thawed(self, run: Run) -> None:
        self._trace.add(run.node_id, f"process {run.attempt} is thawed")
        run.frozen = False
        self._judge(lambda watcher: watcher.process_thawed(run))

    def committed(self, epoch: int, batch: Batch, receipt: Receipt) -> None:
        self._judge(lambda watcher: watcher.committed(epoch, batch, receipt))

    def greeted(self, agent: str, epoch: int) -> None:
        self._judge(lambda watcher: watcher.greeted(agent, epoch))

    def loaded(self) -> None:
        self._judge(lambda watcher: watcher.loaded())

    def look(self, *, at_rest: bool = False) -> None:
        self._judge(lambda watcher: watcher.now_and_then())
        if at_rest:
            self._judge(lambda watcher: watcher.at_rest())

    def _judge(self, ask: "Callable[[Watcher], Iterator[str]]") -> None:
        for watcher in self.watchers:
            for text in ask(watcher):
                name = type(watcher).__name__
                self._trace.add("CHECK", f"{name}: {text}")
                self.found.append((name, text))
