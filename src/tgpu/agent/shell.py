"""Carries out what the machine decides: one stream to the server, one runner on this node."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from random import Random
from typing import Any

from tgpu.agent import log_service
from tgpu.agent.channel import Channel, Dial, Guide, OneServer
from tgpu.agent.checkpoints import Checkpoints, NoCheckpoints
from tgpu.agent.containers import Containers, NoContainers
from tgpu.agent.gang_service import GangService
from tgpu.agent.gpu_watch import Failure, GpuWatch
from tgpu.agent.hands import Hands
from tgpu.agent.heartbeats import LEAST_PATIENCE_S, Patience, Unanswered
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.machine import Instruction, LaunchTask, Machine, PrepareTask, SendReport
from tgpu.agent.node_disk import NodeDisk
from tgpu.agent.older_epoch import OlderEpoch
from tgpu.agent.session_record import SessionRecord
from tgpu.agent.shells import Shells
from tgpu.agent.snapshot_fetch import SnapshotFetch
from tgpu.agent.spots import FixedSpots, Spots
from tgpu.agent.use.uses import Uses
from tgpu.domain.job import Exit
from tgpu.domain.node import Capacity
from tgpu.observe.logs import logger
from tgpu.protocol.messages import (
    PROTOCOL,
    Acknowledge,
    Elsewhere,
    FromAgent,
    FromServer,
    Greeting,
    Heard,
    Heartbeat,
    Launch,
    NodeUse,
    Orders,
    Phase,
    ReadLog,
    Refused,
    Report,
    ResolveImage,
)
from tgpu.protocol.shells import CloseShell, OpenShell, ResizeShell, ShellInput, Taken
from tgpu.protocol.snapshots import SnapshotPart
from tgpu.runner.port import AttemptEnded, Runner, RunnerEvent

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 3.0


class AgentRefusedError(Exception):
    """The server will not have this agent, or is not the one it belongs to; the text says why."""


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
        guide: Guide | None = None,
        spread_s: float = 0.1,
        clock_ms: Callable[[], int] = lambda: 0,
        containers: Containers | None = None,
        gpu_failure: Failure = lambda _indices: None,
        spots: Spots | None = None,
        checkpoints: Checkpoints | None = None,
        uses: Uses | None = None,
        snapshots: SnapshotFetch | None = None,
        sessions: SessionRecord | None = None,
        disk: NodeDisk | None = None,
        boottime_ns: Callable[[], int] = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME),
    ) -> None:
        """`spread_s`: over which time agents come back that lost their server at the same moment.
        `clock_ms`: this node's clock; 0 is none. `boottime_ns`: one that goes on while the machine sleeps."""
        self._identity = identity
        self._dial = dial
        self._guide = guide or OneServer()
        self._spread_s = spread_s
        self._clock_ms = clock_ms
        self._boottime_ns = boottime_ns
        self._runner_for = runner_for
        self._discover = discover
        self._measure = measure
        self._heartbeat_s, self._patience = heartbeat_s, Patience(heartbeat_s)
        self._random = random
        self._containers = containers or NoContainers()
        self._machine = Machine()
        self._gpus = GpuWatch(gpu_failure, uses)
        self._spots = spots or FixedSpots()
        self._checkpoints = checkpoints or NoCheckpoints()
        gangs, node = GangService(self._spots), identity.node_id
        self._hands = Hands(node, log_cap_bytes, everybodys_env, self._gpus, gangs, self._checkpoints,
                            lambda: self._capacity)  # fmt: skip
        self._labels: Mapping[str, str] = {}
        self._runner: Runner | None = None
        self._opening = asyncio.Lock()
        self._cluster_id = identity.cluster_id
        self._epoch, self._lease_s = 0, 0.0
        self._use = NodeUse()
        self._unanswered = Unanswered()
        self._sent_on_at_once: bool | None = None
        """By the server that was called last; None: it did not send us on."""
        self._greeted_once = self._taken_in = False
        self._missed_greetings = 0
        self._older_epoch = OlderEpoch(identity)
        self._sessions = sessions or SessionRecord()
        self._capacity: Capacity | None = None
        self._channel: Channel | None = None
        self._report_due = False
        self._shells = Shells(self._say)
        self._snapshots = snapshots or SnapshotFetch.of_nobody()
        self._snapshots.say = self._say
        self._disk = disk or NodeDisk()
        self._failure: Exception | None = None
        self._side_tasks: set[asyncio.Task[None]] = set()
        self._log = logger("agent")

    @property
    def is_connected(self) -> bool:
        """Whether a leader has taken it in, and the stream still stands."""
        return self._taken_in

    @property
    def capacity(self) -> Capacity | None:
        """What it offered last; None before the first greeting."""
        return self._capacity

    @property
    def last_heard(self) -> float | None:
        """When the last heartbeat that the leader has acknowledged was sent, on the loop's clock."""
        return self._unanswered.last_heard

    async def run(self) -> None:
        """Until cancelled: connect, serve, and connect again."""
        backoff_s = FIRST_BACKOFF_S
        try:
            while True:
                self._greeted_once, self._sent_on_at_once = False, None
                try:
                    channel = await self._dial(self)
                except OSError:
                    pass
                else:
                    await self._serve(channel)
                    if not self._greeted_once and self._sent_on_at_once is None:
                        self._guide.silent()  # it took the call and had nothing to say
                if self._greeted_once:
                    backoff_s = FIRST_BACKOFF_S
                if self._greeted_once or self._sent_on_at_once:  # at once, but not all agents together
                    await asyncio.sleep(self._random.uniform(0, self._spread_s))
                else:
                    await asyncio.sleep(backoff_s * self._random.uniform(0.5, 1.5))
                    backoff_s = min(2 * backoff_s, LONGEST_BACKOFF_S)
        finally:
            if self._runner is not None:
                await self._runner.close()

    async def _serve(self, channel: Channel) -> None:
        self._channel = channel
        heart = self._aside(self._heartbeats(channel))
        patience_s = self._patience.for_greeting_s(self._missed_greetings)
        patience = asyncio.get_running_loop().call_later(patience_s, self._hang_up_on_silence, channel)
        try:
            await channel.closed()
        finally:
            heart.cancel()
            patience.cancel()
            self._unanswered.clear()
            self._channel, self._taken_in = None, False
            self._machine.disconnected()
            self._shells.hang_up()
        if self._failure is not None:
            raise self._failure

    async def _heartbeats(self, channel: Channel) -> None:
        while True:
            await asyncio.sleep(self._heartbeat_s / 2)
            if self._taken_in:
                self._send_beat(channel)  # so that a leader that hangs is left sooner
            await asyncio.sleep(self._heartbeat_s / 2)
            if self._machine.session is not None:
                capacity = await self._discover()
                changed = capacity if capacity != self._capacity else None
                labels = self._labels_now()
                relabelled = labels if labels != self._labels else None
                self._capacity, self._labels = capacity, labels
                await self._beat(channel, changed, relabelled)
                self._machine.saved(await self._checkpoints.look(self._machine.running()))
                self._machine.tick(self._now())
                self._report_soon()

    def _labels_now(self) -> dict[str, str]:
        return {**self._identity.labels, **self._containers.labels()}

    async def _beat(
        self, channel: Channel, changed: Capacity | None = None, labels: Mapping[str, str] | None = None
    ) -> None:
        await self._disk.look()
        self._use = await self._measure()
        self._gpus.seen(self._capacity, self._use, self._now())
        self._send_beat(channel, changed, labels)

    def _send_beat(
        self, channel: Channel, changed: Capacity | None = None, labels: Mapping[str, str] | None = None
    ) -> None:
        now = self._now()
        self._unanswered.sent(now, self._boottime_ns())  # before: it may not seem younger than it is
        short = self._disk.shortage
        beat = Heartbeat(use=self._use, sent=now, capacity=changed, labels=labels, disk_shortage=short)
        channel.send(beat)
        patience_s = self._patience.for_answer_s(taken_in=self._taken_in)
        asyncio.get_running_loop().call_later(patience_s, self._hang_up_if_unanswered, channel, now)

    def _hang_up_on_silence(self, channel: Channel) -> None:
        if not self._greeted_once:
            self._missed_greetings += 1
            self._log.warning("a server did not greet in time")
            self._guide.silent()
            channel.close()

    def _hang_up_if_unanswered(self, channel: Channel, sent: float) -> None:
        """A machine that died sends no reset: silence is all there is to go by."""
        if channel is self._channel and self._unanswered.waits_for(sent):
            self._log.warning("the server does not answer any more")
            self._guide.silent()
            channel.close()

    def received(self, message: FromServer) -> None:
        match message:
            case Orders():
                self._carry_out(self._machine.obey(message, self._now()))
            case Acknowledge():
                self._carry_out(self._machine.acknowledged(message.session, message.seq, self._now()))
            case ReadLog() | ResolveImage():
                self._aside(self._answer(message))
            case Heard():
                self._heard(message)
            case Greeting():
                self._aside(self._greeted(message))
            case Elsewhere():
                self._sent_on(message)
            case Refused():
                self._give_up(AgentRefusedError(message.why))
            case OpenShell():
                self._shells.open(message, self._runner)
            case ShellInput() | ResizeShell() | Taken() | CloseShell() | SnapshotPart():
                self._pass_on(message)

    def _pass_on(self, message: ShellInput | ResizeShell | Taken | CloseShell | SnapshotPart) -> None:
        if not isinstance(message, SnapshotPart):
            self._shells.heard(message)
        else:
            self._snapshots.heard(message)

    def _say(self, message: FromAgent) -> None:
        if self._channel is not None:
            self._channel.send(message)

    def _heard(self, heard: Heard) -> None:
        """What came of this session's hello was ordered before: tasks that live at most once go on."""
        if not self._taken_in:
            self._taken_in = True
            self._aside(self._sessions.confirm(self._machine.session))
            self._log.info("connected", node_id=self._identity.node_id, epoch=self._epoch)
        stamp_ns = self._unanswered.heard(heard.sent)
        if stamp_ns is not None and self._runner is not None:
            self._runner.heard(stamp_ns, self._lease_s)

    def _sent_on(self, elsewhere: Elsewhere) -> None:
        self._sent_on_at_once = self._guide.sent_on(elsewhere.leader, elsewhere.servers)
        if self._channel is not None:
            self._channel.close()

    async def _greeted(self, greeting: Greeting) -> None:
        channel = self._channel
        self._greeted_once, self._missed_greetings = True, 0
        if greeting.protocol != PROTOCOL:
            why = (
                f"the server speaks protocol {greeting.protocol}, this agent {PROTOCOL}: install one version"
            )
            self._give_up(AgentRefusedError(why))
            return
        if self._cluster_id not in (None, greeting.cluster_id):
            self._give_up(AgentRefusedError(self._identity.why_not(greeting.cluster_id)))
            return
        if greeting.epoch < self._epoch:
            self._greeted_once = False
            self._older_epoch.disobey(greeting.epoch, self._epoch, channel, LEAST_PATIENCE_S)
            return
        self._epoch, self._lease_s = greeting.epoch, greeting.lease_s
        self._guide.welcomed(greeting.servers)
        async with self._opening:  # the next greeting may come before the records are read
            if self._runner is None:
                self._cluster_id = greeting.cluster_id
                self._runner = self._runner_for(greeting.cluster_id)
                found = await self._runner.open(self._runner_said)
                self._machine.adopted(self._hands.adopted(found, self._now()))
                self._spots.sweep(self._machine.attempts)
        self._capacity, short = await self._discover(), await self._disk.look()
        self._labels = self._labels_now()
        known = await self._sessions.offer(greeting.session)
        if channel is None or channel is not self._channel:
            return  # the stream broke meanwhile; the next greeting says it all again
        attempts = self._machine.greeted(greeting.session)
        channel.send(
            self._identity.hello(self._labels, self._capacity, attempts, self._clock_ms(), known, short)
        )
        self._report_soon()
        await self._beat(channel)

    async def _answer(self, question: ReadLog | ResolveImage) -> None:
        channel, runner = self._channel, self._runner
        if channel is None or runner is None:
            return
        if isinstance(question, ReadLog):
            channel.send(await log_service.answer(question, runner, self._is_over, self._gpus.uses))
        else:
            channel.send(await self._containers.resolve(question))

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
        self._disk.heard(event)
        event = self._hands.said(event, self._now())
        self._carry_out(self._machine.runner_said(event, self._now()))
        self._report_soon()

    def _carry_out(self, instructions: Iterable[Instruction]) -> None:
        runner = self._runner
        for instruction in instructions:
            if isinstance(instruction, SendReport):
                if self._channel is not None:
                    said, short = instruction, self._disk.shortage
                    self._channel.send(Report(seq=said.seq, attempts=said.attempts, disk_shortage=short))
                continue
            if runner is None:  # no orders are obeyed before the greeting has made one
                return
            if isinstance(instruction, PrepareTask | LaunchTask) and self._disk.shortage:
                self._runner_said(self._disk.refused(instruction.launch.attempt))
            elif isinstance(instruction, PrepareTask):
                self._aside(self._prepare(instruction.launch, runner))
            else:
                self._hands.carry_out(instruction, runner, self._now())

    async def _prepare(self, launch: Launch, runner: Runner) -> None:
        found = await self._hands.prepare(launch, runner)
        if isinstance(found, Exit):
            self._runner_said(AttemptEnded(launch.attempt, found))
            return
        self._carry_out(self._machine.prepared(launch.attempt, found))
        self._report_soon()

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
