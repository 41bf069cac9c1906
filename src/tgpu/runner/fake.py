"""A runner without processes, for the simulator: the same port, on the event loop's time alone.

What runs belongs to the machine, not to the runner: an agent that crashes drops its runner and leaves the
machine's tasks running; a reboot of the machine ends them all.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner.look import Look
from tgpu.runner.port import (
    HAD_BEFORE,
    AttemptEnded,
    AttemptStarted,
    CouldNotPrepareError,
    LaunchSpec,
    LogPart,
    RunnerEvent,
)
from tgpu.runner.shell_port import Shell, ShellOrder, ShellRefusedError


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What a task would do by itself, and how it takes a SIGTERM."""

    duration_s: float
    exit_code: int = 0
    signal: int | None = None
    leaves_after_s: float | None = 0.0
    """How long it takes to obey a SIGTERM; None: it ignores it and is killed after its grace."""
    refusal: str = ""
    """Why it could not even start."""
    output: bytes = b""


@dataclass(slots=True)
class Run:
    """One process that there was: for asserting that an attempt never had two."""

    attempt: str
    start_ms: int
    end_ms: int | None = None


@dataclass(slots=True)
class _Task:
    spec: LaunchSpec
    behaviour: Behaviour
    run: Run | None
    exit: Exit | None = None
    stopping: tuple[Cause, str] | None = None
    timer: asyncio.TimerHandle | None = None


class FakeMachine:
    """Runs tasks on paper; `behave` says how each would go."""

    def __init__(self, behave: Callable[[LaunchSpec], Behaviour], now_ms: Callable[[], int]) -> None:
        self.history: list[Run] = []
        self.listener: Callable[[RunnerEvent], None] | None = None
        self.tasks: dict[str, _Task] = {}
        self.outputs: dict[str, bytes] = {}
        self.heard: tuple[int, float] | None = None
        """Nothing is frozen here: that it was told is all."""
        self.unprepared: dict[str, str] = {}
        """Attempts that cannot be prepared, and why."""
        self._claimed: set[str] = set()
        self._behave = behave
        self._now_ms = now_ms

    def start(self, spec: LaunchSpec) -> None:
        if spec.attempt in self._claimed:
            if spec.attempt not in self.tasks:
                self._tell(AttemptEnded(spec.attempt, HAD_BEFORE))
            return
        self._claimed.add(spec.attempt)
        behaviour = self._behave(spec)
        task = self.tasks[spec.attempt] = _Task(spec, behaviour, None)
        self.outputs[spec.attempt] = behaviour.output
        if behaviour.refusal:
            self._soon(0, task, Exit(Cause.COULD_NOT_START, detail=behaviour.refusal))
            return
        task.run = Run(spec.attempt, self._now_ms())
        self.history.append(task.run)
        asyncio.get_running_loop().call_soon(self._tell, AttemptStarted(spec.attempt, task.run.start_ms))
        limit = spec.time_limit_s
        if limit is not None and limit < behaviour.duration_s:
            loop = asyncio.get_running_loop()
            detail = f"it ran longer than its limit of {limit} s"
            task.timer = loop.call_later(limit, self.stop, spec.attempt, Cause.TIME_LIMIT, detail)
        else:
            cause = Cause.EXITED if behaviour.signal is None else Cause.SIGNALLED
            code = behaviour.exit_code if behaviour.signal is None else None
            self._soon(behaviour.duration_s, task, Exit(cause, exit_code=code, signal=behaviour.signal))

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        task = self.tasks.get(attempt)
        if task is None or task.exit is not None:
            return
        if at_once:
            cause, detail = task.stopping or (cause, detail)
            self._soon(0, task, Exit(cause, signal=9, detail=detail))
        if at_once or task.stopping is not None:
            return
        task.stopping = (cause, detail)
        leaves, grace = task.behaviour.leaves_after_s, task.spec.grace_s
        obeys = leaves is not None and leaves <= grace
        number = 15 if obeys else 9
        delay = leaves if obeys and leaves is not None else grace
        self._soon(delay, task, Exit(cause, signal=number, detail=detail))

    def forget(self, attempt: str) -> None:
        task = self.tasks.get(attempt)
        if task is not None and task.exit is not None:
            del self.tasks[attempt]

    def reboot(self) -> None:
        """Everything that runs is over at once; nobody is told, since the agent went down too."""
        self.listener = None
        for task in self.tasks.values():
            if task.exit is None:
                self._end(task, Exit(Cause.REBOOTED, detail="the machine restarted"))

    def events(self) -> list[RunnerEvent]:
        """What an agent finds when it starts."""
        return [
            AttemptEnded(name, task.exit)
            if task.exit is not None
            else AttemptStarted(name, task.run.start_ms if task.run is not None else self._now_ms())
            for name, task in self.tasks.items()
        ]

    def live(self, attempt: str) -> list[Run]:
        return [run for run in self.history if run.attempt == attempt and run.end_ms is None]

    def _soon(self, delay_s: float, task: _Task, end: Exit) -> None:
        if task.timer is not None:
            task.timer.cancel()
        task.timer = asyncio.get_running_loop().call_later(delay_s, self._end, task, end)

    def _end(self, task: _Task, end: Exit) -> None:
        if task.timer is not None:
            task.timer.cancel()
        if task.run is not None:
            task.run.end_ms = self._now_ms()
        started_ms = None if task.run is None else task.run.start_ms
        task.exit = replace(end, started_ms=started_ms, ended_ms=self._now_ms())
        self._tell(AttemptEnded(task.spec.attempt, task.exit))

    def _tell(self, event: RunnerEvent) -> None:
        if self.listener is not None:
            self.listener(event)


class FakeRunner:
    """An agent's handle on a FakeMachine; to crash the agent, drop it."""

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        self._machine.listener = on_event
        return self._machine.events()

    async def close(self) -> None:
        self._machine.listener = None

    async def prepare(self, spec: LaunchSpec) -> None:
        if spec.attempt in self._machine.unprepared:
            raise CouldNotPrepareError(self._machine.unprepared[spec.attempt])

    def drop(self, attempt: str) -> None:
        """Nothing was prepared."""

    def launch(self, spec: LaunchSpec) -> None:
        self._machine.start(spec)

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        self._machine.stop(attempt, cause, detail, at_once=at_once)

    def forget(self, attempt: str) -> None:
        self._machine.forget(attempt)

    def heard(self, stamp_ns: int, lease_s: float) -> None:
        self._machine.heard = (stamp_ns, lease_s)

    def read_log(self, attempt: str, stream: str, offset: int, max_bytes: int) -> LogPart | None:
        output = self._machine.outputs.get(attempt)
        if output is None or stream not in ("stdout", "stderr"):
            return None
        data = output if stream == "stdout" else b""
        begin = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
        return LogPart(begin, data[begin : begin + max_bytes])

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:  # noqa: ARG002  on paper nothing is used
        return {}

    async def open_shell(self, order: ShellOrder) -> Shell:
        raise ShellRefusedError(f"{order.attempt} is a run on paper: nobody can be inside it")
