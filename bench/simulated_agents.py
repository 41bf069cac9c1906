"""Thousands of agents in one process: the real protocol and the real agent's machine, with nothing to run.

An agent here shows its key, beats, obeys, reports and reconnects by the rules and constants of the real one
(`agent/machine.py`, `agent/shell.py`); what it lacks is a runner. A task whose command is `sleep SECONDS`
starts at once and ends after that time, any other runs until it is stopped.
"""

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

import msgspec

from tgpu.agent import shell
from tgpu.agent.heartbeats import Patience
from tgpu.agent.machine import Instruction, LaunchTask, Machine, SendReport, StopTask
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.node import Capacity, Device
from tgpu.protocol import door
from tgpu.protocol.framing import Reader, encode
from tgpu.protocol.messages import (
    PROTOCOL,
    Acknowledge,
    Elsewhere,
    FromServer,
    Greeting,
    Heard,
    Heartbeat,
    Hello,
    Launch,
    NodeUse,
    Orders,
    Refused,
    Report,
)
from tgpu.runner.port import AttemptEnded, AttemptStarted
from tgpu.wiring.dialing import CONNECT_S, LONGEST_PATIENCE_S
from tgpu.wiring.membership import SPREAD_S
from tgpu.wiring.stream_options import GOODBYE_S
from tgpu.wiring.trust import client_context

CPUS, GPUS = 64, 8
"""Of every node."""
HEARTBEAT_S = 5.0
SLICES = 100
"""A heartbeat's interval is cut into so many, and the agents are spread over them."""
LABEL = "bench=yes"
_PATIENCE = Patience(HEARTBEAT_S)
_decoder = msgspec.msgpack.Decoder(FromServer)


@dataclass(slots=True)
class Seen:
    """What all agents together have seen."""

    launches: Counter[str] = field(default_factory=Counter)
    """How often each attempt was begun, by its name: more than once would be a task run twice."""
    first_launch: dict[int, float] = field(default_factory=dict)
    """When an instruction to start something of this job came first, on CLOCK_MONOTONIC."""
    last_launch: float = 0.0
    waiters: dict[int, "asyncio.Future[float]"] = field(default_factory=dict)
    ended: int = 0
    streams_lost: int = 0
    refusals: list[str] = field(default_factory=list)

    def launched(self, attempt: str, at: float) -> None:
        self.launches[attempt] += 1
        self.last_launch = at
        job_id = int(attempt.partition(".")[0])
        if job_id not in self.first_launch:
            self.first_launch[job_id] = at
            waiter = self.waiters.pop(job_id, None)
            if waiter is not None and not waiter.done():
                waiter.set_result(at)


class SimulatedAgent(asyncio.Protocol):
    """One node. `is_up`: the leader has acknowledged a heartbeat of this very stream."""

    def __init__(self, fleet: "Fleet", node_id: str, key: str) -> None:
        self._fleet, self._node_id, self._key = fleet, node_id, key
        self.machine = Machine()
        self.is_up = False
        self._stops: dict[str, asyncio.TimerHandle] = {}
        self._transport: asyncio.Transport | None = None
        self._over: asyncio.Future[None] | None = None
        self._reader: Reader[FromServer] | None = None
        self._greeted = False
        self._sent_on_at_once: bool | None = None
        self._missed_greetings = 0
        self._leader: str | None = None
        self._silent: set[str] = set()
        self._refused: set[str] = set()
        self._followed: set[str] = set()
        self._called = ""
        self._tried: set[str] = set()
        self._epoch = 0
        self._unanswered: float | None = None

    # Connecting, and connecting again: the rules of `Agent.run` and of `TcpDial`

    async def live(self, after_s: float) -> None:
        await asyncio.sleep(after_s)
        backoff_s, chance = shell.FIRST_BACKOFF_S, self._fleet.chance
        while True:
            self._greeted, self._sent_on_at_once = False, None
            try:
                await self._serve(self._choose())
            except OSError as error:
                self._leader = None
                (self._silent if isinstance(error, TimeoutError) else self._refused).add(self._called)
            if self._greeted:
                backoff_s = shell.FIRST_BACKOFF_S
            if self._greeted or self._sent_on_at_once:
                await asyncio.sleep(chance.uniform(0, SPREAD_S))
            else:
                await asyncio.sleep(backoff_s * chance.uniform(0.5, 1.5))
                backoff_s = min(2 * backoff_s, shell.LONGEST_BACKOFF_S)

    def _choose(self) -> str:
        left = [url for url in self._fleet.servers if url not in self._tried]
        if not left:
            self._begin_round()
            left = list(self._fleet.servers)
        self._called = self._leader or self._fleet.chance.choice(left)
        self._tried.add(self._called)
        return self._called

    async def _serve(self, url: str) -> None:
        parts, loop, tls = urlsplit(url), asyncio.get_running_loop(), self._fleet.tls
        self._over, self._reader = loop.create_future(), Reader(_decoder)
        async with asyncio.timeout(CONNECT_S + LONGEST_PATIENCE_S):
            await loop.create_connection(
                lambda: self,
                parts.hostname,
                parts.port,
                ssl=tls,
                server_hostname=parts.hostname if tls else None,
                ssl_handshake_timeout=LONGEST_PATIENCE_S if tls else None,
                ssl_shutdown_timeout=GOODBYE_S if tls else None,
            )
        patience_s = _PATIENCE.for_greeting_s(self._missed_greetings)
        patience = loop.call_later(patience_s, self._hang_up_on_silence)
        await self._over
        patience.cancel()
        if not self._greeted and self._sent_on_at_once is None:
            self._fell_silent()

    def _fell_silent(self) -> None:
        self._leader = None
        self._silent.add(self._called)
        self._tried.add(self._called)

    def _begin_round(self) -> None:
        self._tried.clear()
        self._refused.clear()
        self._followed.clear()

    def _hang_up_on_silence(self) -> None:
        if not self._greeted:
            self._missed_greetings += 1
            self.hang_up()

    def hang_up(self) -> None:
        self._fell_silent()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(door.AGENT)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  asyncio's signature
        self._fleet.seen.streams_lost += self.is_up
        self._transport, self.is_up, self._unanswered = None, False, None
        self.machine.disconnected()
        assert self._over is not None
        if not self._over.done():
            self._over.set_result(None)

    # What the server says

    def data_received(self, data: bytes) -> None:
        assert self._reader is not None
        for message in self._reader.feed(data):
            self._take(message)
        self._report()

    def _take(self, message: FromServer) -> None:
        match message:
            case Heard(sent=sent):
                self.is_up = True
                if self._unanswered is not None and self._unanswered <= sent:
                    self._unanswered = None
            case Orders():
                self._obey(message)
            case Acknowledge(session=session, seq=seq):
                self.machine.acknowledged(session, seq, time.monotonic())
            case Greeting():
                self._greet(message)
            case Elsewhere(leader=leader):
                self._leader = None if leader in self._silent | self._refused else leader
                self._sent_on_at_once = self._leader is not None and self._leader not in self._followed
                self._followed |= {leader} if leader is not None else set()
                if self._transport is not None:
                    self._transport.close()
            case Refused(why=why):
                self._fleet.seen.refusals.append(why)

    def _greet(self, greeting: Greeting) -> None:
        self._greeted, self._missed_greetings = True, 0
        if greeting.epoch < self._epoch:
            self.hang_up()
            return
        self._epoch, self._leader = greeting.epoch, self._called
        self._silent.clear()
        self._begin_round()
        self._write(
            encode(self._fleet.hello(self._node_id, self._key, self.machine.greeted(greeting.session)))
        )
        self._report()
        self.beat(time.monotonic(), beat(time.monotonic()))

    def _obey(self, orders: Orders) -> None:
        now = time.monotonic()
        self._carry_out(self.machine.obey(orders, now), now)

    def _carry_out(self, instructions: Sequence[Instruction], now: float) -> None:
        for instruction in instructions:
            match instruction:
                case LaunchTask(launch=launch):
                    self._launch(launch, now)
                case StopTask(attempt=attempt, cause=cause):
                    self._ends(attempt, cause)
                case SendReport(seq=seq, attempts=attempts):
                    self._write(encode(Report(seq=seq, attempts=attempts)))

    def _launch(self, launch: Launch, now: float) -> None:
        self._fleet.seen.launched(launch.attempt, now)
        self.machine.runner_said(AttemptStarted(launch.attempt, wall_ms()), now)
        if isinstance(launch.command, list) and launch.command[0] == "sleep":
            self._stops[launch.attempt] = asyncio.get_running_loop().call_later(
                float(launch.command[1]), self._ends_alone, launch.attempt
            )

    def _ends_alone(self, attempt: str) -> None:
        self._ends(attempt, Cause.EXITED)
        self._report()

    def _ends(self, attempt: str, cause: Cause) -> None:
        timer = self._stops.pop(attempt, None)
        if timer is not None:
            timer.cancel()
        self._fleet.seen.ended += 1
        how = Exit(cause, exit_code=0 if cause is Cause.EXITED else None, ended_ms=wall_ms())
        self.machine.runner_said(AttemptEnded(attempt, how), time.monotonic())

    def _report(self) -> None:
        now = time.monotonic()
        self._carry_out(self.machine.report(now), now)

    # What the clock brings

    def beat(self, now: float, encoded: bytes) -> None:
        if self.machine.session is None or self._transport is None:
            return
        self._unanswered = now if self._unanswered is None else self._unanswered
        self._fleet.beats.append((now, self))
        self._write(encoded)
        self.machine.tick(now)
        self._report()

    def hang_up_if_unanswered(self, sent: float) -> None:
        if self._unanswered is not None and self._unanswered <= sent:
            self.hang_up()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


class Fleet:
    """All agents of a process, on one event loop."""

    def __init__(self, servers: Sequence[str], ca_pem: str | None) -> None:
        self.servers = tuple(servers)
        self.tls = client_context(ca_pem) if ca_pem else None
        self.chance = random.Random(3)
        self.seen = Seen()
        self.agents: list[SimulatedAgent] = []
        self.beats: deque[tuple[float, SimulatedAgent]] = deque()
        """Heartbeats that may still be waited for, the oldest first."""
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, nodes: Sequence[tuple[str, str]], within_s: float) -> None:
        """More agents, by name and key; they call spread over this time."""
        for number, (node_id, key) in enumerate(nodes):
            agent = SimulatedAgent(self, node_id, key)
            self.agents.append(agent)
            task = asyncio.get_running_loop().create_task(agent.live(within_s * number / len(nodes)))
            self._tasks.add(task)
            task.add_done_callback(self._gone)

    def _gone(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.seen.refusals.append(repr(failure))

    async def beat_for_ever(self) -> None:
        """Each agent once per interval; those of one slice say the same, so it is written down once."""
        due = deque(range(SLICES))
        next_at = time.monotonic()
        while True:
            next_at += HEARTBEAT_S / SLICES
            await asyncio.sleep(max(0.0, next_at - time.monotonic()))
            now = time.monotonic()
            encoded = beat(now)
            for agent in self.agents[due[0] :: SLICES]:
                agent.beat(now, encoded)
            due.rotate(-1)
            while self.beats and now - self.beats[0][0] >= _PATIENCE.for_answer_s(taken_in=True):
                sent, agent = self.beats.popleft()
                agent.hang_up_if_unanswered(sent)

    def hello(self, node_id: str, key: str, attempts: tuple[object, ...]) -> Hello:
        return Hello(
            protocol=PROTOCOL,
            node_id=node_id,
            boot_id="b",
            version="bench",
            capacity=_capacity(node_id),
            pool="default",
            labels={"rack": node_id[:-2], "bench": "yes"},
            serves="*",
            attempts=attempts,
            key=key,
            clock_ms=wall_ms(),
        )


def _capacity(node_id: str) -> Capacity:
    devices = tuple(
        Device(at, f"GPU-{node_id}-{at}", "A100", 80 * 1024, numa_node=at // 4, island=0)
        for at in range(GPUS)
    )
    return Capacity(CPUS * 1000, 512 * 1024, 2_000_000, devices)


def beat(now: float) -> bytes:
    """What is measured changes with every heartbeat, as on real nodes."""
    percent = tuple((int(now * 20) * (at + 7)) % 101 for at in range(GPUS))
    use = NodeUse(
        cpu_milli=1500 + int(now * 20) % 1000,
        memory_mib=9000 + int(now * 20) % 500,
        gpu_percent=percent,
        gpu_memory_mib=(9000,) * GPUS,
    )
    return encode(Heartbeat(use=use, sent=now))


def wall_ms() -> int:
    return time.time_ns() // 1_000_000
