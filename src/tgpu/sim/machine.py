"""A machine whose processes and records outlive its agent; a reboot ends the processes, not the records."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVarTuple

from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity
from tgpu.runner.port import AttemptEnded, AttemptStarted, LaunchSpec, RunnerEvent
from tgpu.sim.behaviour import Behaviour
from tgpu.sim.chance import happens
from tgpu.sim.facts import Facts, Run
from tgpu.sim.loop import Incarnation, SimLoop

SIGTERM, SIGKILL = 15, 9
POLL_S = 0.5
Ts = TypeVarTuple("Ts")


@dataclass(slots=True)
class Record:
    """On disk: claimed before it starts, its exit written before anybody is told."""

    started_ms: int | None = None
    exit: Exit | None = None


@dataclass(slots=True)
class Process:
    spec: LaunchSpec
    behaviour: Behaviour
    run: Run
    ends_s: float
    """When it would exit by itself, if nothing held it up."""
    stopping: tuple[Cause, str] | None = None
    frozen_s: float | None = None
    """Since when it stands still."""


class Machine:
    def __init__(self, loop: SimLoop, random: Random, facts: Facts, node_id: str, capacity: Capacity) -> None:
        self._loop = loop
        self._random = random
        self._facts = facts
        self._whole = capacity
        self._boots = 0
        self.node_id = node_id
        self.capacity = capacity
        self.records: dict[str, Record] = {}
        self.forgotten: dict[str, None] = {}
        self.ordered: dict[str, LaunchSpec] = {}
        """Launches on their way to the disk: nobody has claimed them yet."""
        self.stops: dict[str, tuple[Cause, str]] = {}
        self.live: dict[str, Process] = {}
        self.awaited: dict[str, LaunchSpec] = {}
        """Claimed by a supervisor that does not start its task before the leader is heard."""
        self._lease_s = 0.0
        self.sessions: tuple[int, ...] = (0,)
        """On disk: those in which its agent was admitted, or may have been."""
        self.is_fragile = False
        """A device fails under the next task that gets one."""
        self.tell: Callable[[RunnerEvent], None] | None = None
        self.boot = self._new_boot()

    def _new_boot(self) -> Incarnation:
        self._boots += 1
        return Incarnation(f"{self.node_id}.boot{self._boots}")

    def now_ms(self) -> int:
        return round(self._loop.time() * 1000)

    # What an agent's runner asks for

    def order(self, spec: LaunchSpec) -> None:
        self.ordered[spec.attempt] = spec
        self._later(self._random.uniform(0, 0.3), self._claim, spec)

    def prepared(self, attempt: str) -> None:
        """In the agent's memory alone."""
        self._facts.prepared.add(attempt)

    def order_stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool) -> None:
        self.stops.setdefault(attempt, (cause, detail))
        process = self.live.get(attempt)
        if process is not None:
            self._begin_end(process, self.stops[attempt])
            if at_once:
                self._killed(process, SIGKILL)

    def forget(self, attempt: str) -> None:
        self.records.pop(attempt, None)
        self.stops.pop(attempt, None)
        self.forgotten[attempt] = None

    def heard(self, until_s: float) -> None:
        """On disk, for every supervisor to read when it next looks."""
        self._lease_s = until_s

    def survey(self) -> list[RunnerEvent]:
        """What is here from before; whatever a reboot interrupted is over."""
        for attempt, record in self.records.items():
            if record.exit is None and attempt not in self.live and attempt not in self.awaited:
                record.exit = Exit(Cause.REBOOTED, started_ms=record.started_ms, ended_ms=self.now_ms())
        return [
            AttemptStarted(attempt, record.started_ms or 0)
            if record.exit is None
            else AttemptEnded(attempt, record.exit)
            for attempt, record in self.records.items()
        ]

    # What the world does to it

    def agent_gone(self) -> None:
        """Of what was still on its way, some arrives and some does not."""
        self.tell = None
        for attempt in list(self.ordered):
            if happens(self._random, 0.5):
                del self.ordered[attempt]

    def reboot(self) -> None:
        self.boot.alive = False
        for process in self.live.values():
            self._facts.ended(process.run, Exit(Cause.REBOOTED, ended_ms=self.now_ms()))
        self.live.clear()
        self.ordered.clear()
        self.awaited.clear()
        self._lease_s = 0.0
        self.tell = None
        self.boot = self._new_boot()

    def lose_supervisor(self) -> None:
        if self.live:
            process = self.live[self._random.choice(list(self.live))]
            self._record_end(process, Exit(Cause.SUPERVISOR_LOST, ended_ms=self.now_ms()))

    def fall_ill(self, position: int) -> None:
        sick = [
            replace(device, healthy=False, lost=True) if at == position else device
            for at, device in enumerate(self.capacity.devices)
        ]
        self.capacity = replace(self.capacity, devices=tuple(sick))

    def recover(self) -> None:
        self.capacity = self._whole

    async def keep_sessions(self, kept: tuple[int, ...]) -> bool:
        """An agent that dies meanwhile has written it, or not."""
        await asyncio.sleep(self._random.uniform(0, 0.02))
        self.sessions = kept
        await asyncio.sleep(self._random.uniform(0, 0.02))
        return True

    # How a process lives

    def _claim(self, spec: LaunchSpec) -> None:
        if self.ordered.pop(spec.attempt, None) is None:
            return
        self._try(spec)

    def _try(self, spec: LaunchSpec) -> None:
        self.awaited.pop(spec.attempt, None)
        behaviour = Behaviour.parse(spec.argv)
        if spec.attempt in self.stops:
            cause, detail = self.stops[spec.attempt]
            self._never_ran(spec.attempt, Exit(cause, detail=detail, ended_ms=self.now_ms()))
        elif spec.once and not self._is_heard():
            self.records.setdefault(spec.attempt, Record(started_ms=self.now_ms()))
            self.awaited[spec.attempt] = spec
            self._later(self._random.uniform(0.1, POLL_S), self._try, spec)
        elif not behaviour.starts:
            why = "simulated: command not found"
            self._never_ran(spec.attempt, Exit(Cause.COULD_NOT_START, detail=why, ended_ms=self.now_ms()))
        else:
            self._start(spec, behaviour)

    def _never_ran(self, attempt: str, how: Exit) -> None:
        self.records[attempt] = Record(exit=how)
        self._say(AttemptEnded(attempt, how))

    def _start(self, spec: LaunchSpec, behaviour: Behaviour) -> None:
        now_ms = self.now_ms()
        devices = tuple(int(index) for index in spec.env["CUDA_VISIBLE_DEVICES"].split(",") if index)
        run = Run(spec.attempt, self.node_id, devices, self._loop.time())
        process = Process(spec, behaviour, run, self._loop.time() + behaviour.runs_ms / 1000)
        self.records[spec.attempt] = Record(started_ms=now_ms)
        self.live[spec.attempt] = process
        self._facts.started(run)
        self._say(AttemptStarted(spec.attempt, now_ms))
        if devices and self.is_fragile:
            self.is_fragile = False
            self.fall_ill(devices[0])
        self._later(behaviour.runs_ms / 1000, self._exits, process)
        if spec.once:
            self._later(POLL_S, self._look, process)
        if spec.time_limit_s is not None:
            self._later(spec.time_limit_s, self._begin_end, process, (Cause.TIME_LIMIT, ""))

    def _is_heard(self) -> bool:
        return self._loop.time() < self._lease_s

    def _look(self, process: Process) -> None:
        """What its supervisor does now and then, whether there is an agent or not."""
        if self.live.get(process.spec.attempt) is not process:
            return
        if not self._is_heard():
            if process.frozen_s is None:
                process.frozen_s = self._loop.time()
                self._facts.froze(process.run)
        elif process.frozen_s is not None and not self._is_replaced(process):
            held_up_s = self._loop.time() - process.frozen_s
            process.frozen_s = None
            process.ends_s += held_up_s
            self._later(max(0.0, process.ends_s - self._loop.time()), self._exits, process)
            self._facts.thawed(process.run)
            if process.stopping is not None:
                self._obey(process)
        self._later(self._random.uniform(0.1, POLL_S), self._look, process)

    def _is_replaced(self, process: Process) -> bool:
        """A stop comes before the thaw: whoever has to go for another attempt is not woken up for it."""
        attempt = process.spec.attempt
        if attempt in self.stops:
            self._begin_end(process, self.stops[attempt])
        return process.stopping is not None and process.stopping[0] is Cause.SUPERSEDED

    def _exits(self, process: Process) -> None:
        if process.frozen_s is not None or self._loop.time() < process.ends_s - 1e-6:
            return  # it stood still meanwhile: its time has not come
        cause, detail = process.stopping or (Cause.EXITED, "")
        self._record_end(
            process, Exit(cause, process.behaviour.exit_code, detail=detail, ended_ms=self.now_ms())
        )

    def _begin_end(self, process: Process, reason: tuple[Cause, str]) -> None:
        if process.stopping is not None:
            return
        process.stopping = reason
        if process.spec.once and reason[0] is Cause.SUPERSEDED:
            self._killed(process, SIGKILL)
            return
        self._later(process.spec.grace_s, self._killed, process, SIGKILL)
        if process.frozen_s is None:
            self._obey(process)

    def _obey(self, process: Process) -> None:
        obeys_ms = process.behaviour.obeys_ms
        if obeys_ms is not None and obeys_ms < 1000 * process.spec.grace_s:
            self._later(obeys_ms / 1000, self._killed, process, SIGTERM)

    def _killed(self, process: Process, signal: int) -> None:
        if signal == SIGTERM and process.frozen_s is not None:
            return  # it got as far as that, and no further
        cause, detail = process.stopping or (Cause.SIGNALLED, "")
        self._record_end(process, Exit(cause, signal=signal, detail=detail, ended_ms=self.now_ms()))

    def _record_end(self, process: Process, how: Exit) -> None:
        attempt = process.spec.attempt
        if self.live.get(attempt) is not process:
            return
        del self.live[attempt]
        record = self.records[attempt]
        record.exit = replace(how, started_ms=record.started_ms)
        self._facts.ended(process.run, record.exit)
        self._say(AttemptEnded(attempt, record.exit))

    def _say(self, event: RunnerEvent) -> None:
        if self.tell is not None:
            self.tell(event)

    def _later(self, seconds: float, what: Callable[[*Ts], None], *args: *Ts) -> asyncio.TimerHandle:
        return self._loop.call_later(seconds, what, *args, context=self.boot.context)
