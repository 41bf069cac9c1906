"""Carries out what the machine decides: one stream to the server, one runner on this node."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from tgpu import __version__
from tgpu.agent import log_service
from tgpu.agent.channel import Channel, Dial
from tgpu.agent.environment import launch_spec
from tgpu.agent.machine import ForgetTask, Instruction, LaunchTask, Machine, SendReport, StopTask
from tgpu.domain.node import Capacity
from tgpu.observe.logs import logger
from tgpu.protocol.messages import (
    PROTOCOL,
    Acknowledge,
    FromServer,
    Greeting,
    Heartbeat,
    Hello,
    NodeUse,
    Orders,
    Phase,
    ReadLog,
    Refused,
    Report,
)
from tgpu.runner.port import Runner, RunnerEvent

LONGEST_BACKOFF_S = 2.0


class AgentRefusedError(Exception):
    """The server will not have this agent, or is not the one it belongs to; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What this agent says of itself."""

    node_id: str
    boot_id: str
    pool: str
    labels: Mapping[str, str]
    serves: str
    taints: tuple[str, ...] = ()


class Agent:
    """Thin: whatever can be decided without I/O is decided in `Machine`."""

    def __init__(
        self,
        *,
        identity: NodeIdentity,
        dial: Dial,
        runner_for: Callable[[str], Runner],
        discover: Callable[[], Awaitable[Capacity]],
        measure: Callable[[], Awaitable[NodeUse]],
        heartbeat_s: float,
        log_cap_bytes: int,
        everybodys_env: Mapping[str, str],
        random: Random,
    ) -> None:
        self._identity = identity
        self._dial = dial
        self._runner_for = runner_for
        self._discover = discover
        self._measure = measure
        self._heartbeat_s = heartbeat_s
        self._log_cap_bytes = log_cap_bytes
        self._everybodys_env = everybodys_env
        self._random = random
        self._machine = Machine()
        self._runner: Runner | None = None
        self._opening = asyncio.Lock()
        self._cluster_id: str | None = None
        self._epoch = 0
        self._capacity: Capacity | None = None
        self._channel: Channel | None = None
        self._report_due = False
        self._failure: Exception | None = None
        self._side_tasks: set[asyncio.Task[None]] = set()
        self._log = logger("agent")

    async def run(self) -> None:
        """Until cancelled: connect, serve, and connect again."""
        backoff_s = 0.05
        try:
            while True:
                try:
                    channel = await self._dial(self)
                except OSError:
                    pass
                else:
                    backoff_s = 0.05
                    await self._serve(channel)
                await asyncio.sleep(backoff_s * self._random.uniform(0.5, 1.5))
                backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)
        finally:
            if self._runner is not None:
                await self._runner.close()

    async def _serve(self, channel: Channel) -> None:
        self._channel = channel
        heart = self._aside(self._heartbeats(channel))
        try:
            await channel.closed()
        finally:
            heart.cancel()
            self._channel = None
            self._machine.disconnected()
        if self._failure is not None:
            raise self._failure

    async def _heartbeats(self, channel: Channel) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s)
            if self._machine.session is None:
                continue
            capacity = await self._discover()
            changed = capacity if capacity != self._capacity else None
            self._capacity = capacity
            channel.send(Heartbeat(use=await self._measure(), capacity=changed))
            self._machine.tick(asyncio.get_running_loop().time())
            self._report_soon()

    # What the server says

    def received(self, message: FromServer) -> None:
        match message:
            case Orders():
                self._carry_out(self._machine.obey(message, self._now()))
            case Acknowledge():
                self._carry_out(self._machine.acknowledged(message.session, message.seq, self._now()))
            case ReadLog():
                self._aside(self._answer_log(message))
            case Greeting():
                self._aside(self._greeted(message))
            case Refused():
                self._give_up(AgentRefusedError(message.why))

    async def _greeted(self, greeting: Greeting) -> None:
        channel = self._channel
        if greeting.protocol != PROTOCOL:
            why = (
                f"the server speaks protocol {greeting.protocol}, this agent {PROTOCOL}: install one version"
            )
            self._give_up(AgentRefusedError(why))
            return
        if self._cluster_id not in (None, greeting.cluster_id):
            self._give_up(
                AgentRefusedError(f"the server now belongs to another cluster, {greeting.cluster_id}")
            )
            return
        if greeting.epoch < self._epoch:
            self._log.warning("a deposed server", epoch=greeting.epoch, newest=self._epoch)
            if channel is not None:
                channel.close()
            return
        self._epoch = greeting.epoch
        async with self._opening:  # the next greeting may come before the records are read
            if self._runner is None:
                self._cluster_id = greeting.cluster_id
                self._runner = self._runner_for(greeting.cluster_id)
                self._machine.adopted(await self._runner.open(self._runner_said))
        self._capacity = await self._discover()
        if channel is None or channel is not self._channel:
            return  # the stream broke meanwhile; the next greeting says it all again
        channel.send(
            Hello(
                protocol=PROTOCOL,
                node_id=self._identity.node_id,
                boot_id=self._identity.boot_id,
                version=__version__,
                capacity=self._capacity,
                pool=self._identity.pool,
                labels=self._identity.labels,
                serves=self._identity.serves,
                attempts=self._machine.greeted(greeting.session),
                taints=self._identity.taints,
            )
        )
        self._report_soon()

    async def _answer_log(self, question: ReadLog) -> None:
        channel, runner = self._channel, self._runner
        if channel is not None and runner is not None:
            channel.send(await log_service.answer(question, runner, self._is_over))

    def _is_over(self, attempt: str) -> bool:
        known = self._machine.attempts.get(attempt)
        return known is None or known.phase is Phase.ENDED

    def _give_up(self, failure: Exception) -> None:
        self._failure = failure
        self._log.error("refused", why=str(failure))
        if self._channel is not None:
            self._channel.close()

    # What the runner says, and what is done about it

    def _runner_said(self, event: RunnerEvent) -> None:
        self._carry_out(self._machine.runner_said(event, self._now()))
        self._report_soon()

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        runner = self._runner
        for instruction in instructions:
            if isinstance(instruction, SendReport):
                if self._channel is not None:
                    self._channel.send(Report(seq=instruction.seq, attempts=instruction.attempts))
                continue
            if runner is None:  # no orders are obeyed before the greeting has made one
                return
            match instruction:
                case LaunchTask(launch=launch):
                    runner.launch(launch_spec(launch, self._log_cap_bytes, self._everybodys_env))
                case StopTask(attempt=attempt, cause=cause, detail=detail):
                    runner.stop(attempt, cause, detail)
                case ForgetTask(attempt=attempt):
                    runner.forget(attempt)

    def _report_soon(self) -> None:
        """Once per turn of the loop: what happens together is reported together."""
        if not self._report_due:
            self._report_due = True
            asyncio.get_running_loop().call_soon(self._report)

    def _report(self) -> None:
        self._report_due = False
        self._carry_out(self._machine.report(self._now()))

    def _aside(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """If it fails, so does the whole agent: one that only seems to be alive helps nobody."""
        task = asyncio.get_running_loop().create_task(work)
        self._side_tasks.add(task)
        task.add_done_callback(self._aside_done)
        return task

    def _aside_done(self, task: asyncio.Task[None]) -> None:
        self._side_tasks.discard(task)
        if not task.cancelled() and isinstance(failure := task.exception(), Exception):
            self._give_up(failure)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
