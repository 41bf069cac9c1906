"""One life of an agent: the real one, on a simulated machine and network."""

import asyncio
from collections.abc import Callable
from random import Random

from tgpu.agent.channel import Channel, Listener
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.session_record import SessionRecord
from tgpu.agent.shell import Agent
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import NodeUse
from tgpu.sim.facts import Facts
from tgpu.sim.loop import Incarnation, SimLoop
from tgpu.sim.machine import Machine
from tgpu.sim.network import Network
from tgpu.sim.runner import SimRunner
from tgpu.sim.trace import Trace

HEARTBEAT_S = 5.0


class AgentProcess:
    def __init__(
        self,
        *,
        name: str,
        loop: SimLoop,
        random: Random,
        machine: Machine,
        network: Network,
        facts: Facts,
        trace: Trace,
        on_exit: Callable[["AgentProcess"], None],
    ) -> None:
        self.incarnation = Incarnation(name)
        self.machine = machine
        self._loop = loop
        self._random = random
        self._network = network
        self._facts = facts
        self._trace = trace
        self._on_exit = on_exit
        self._guide = _Guide()
        self._agent = Agent(
            identity=NodeIdentity(
                node_id=machine.node_id,
                boot_id=machine.boot.name,
                pool="default",
                labels={},
                serves="*",
                instance=name,
            ),
            sessions=SessionRecord(machine.sessions, machine.keep_sessions),
            dial=self._dial,
            runner_for=lambda _cluster_id: SimRunner(loop, random, machine, self.incarnation),
            discover=self._discover,
            measure=self._measure,
            heartbeat_s=HEARTBEAT_S,
            log_cap_bytes=0,
            everybodys_env={},
            random=random,
            guide=self._guide,
            boottime_ns=lambda: round(loop.time() * 1e9),
        )

    def start(self) -> None:
        self._loop.create_task(self._main(), context=self.incarnation.context.copy())

    async def _main(self) -> None:
        try:
            await self._agent.run()
        except Exception as error:  # noqa: BLE001  an agent that ends by itself is what we look for
            self._facts.failures.append(f"{self.incarnation.name} failed: {error!r}")
            self._trace.add(self.incarnation.name, f"failed: {error!r}")
        self._loop.outside(0, self._on_exit, self)

    async def _dial(self, listener: Listener) -> Channel:
        url, self._guide.url = self._guide.url, None
        channel = await self._network.dial(self.incarnation, self.machine.node_id, listener, url)
        self._guide.called = url
        return channel

    async def _discover(self) -> Capacity:
        await asyncio.sleep(self._random.uniform(0, 0.2))
        return self.machine.capacity

    async def _measure(self) -> NodeUse:
        await asyncio.sleep(self._random.uniform(0, 0.1))
        return NodeUse()


class _Guide:
    """Goes where it was sent on to; otherwise to whichever answers."""

    def __init__(self) -> None:
        self.url: str | None = None
        self.called: str | None = None
        self._followed: set[str] = set()

    def welcomed(self, servers: tuple[str, ...]) -> None:
        del servers
        self.url = self.called
        self._followed.clear()

    def sent_on(self, leader: str | None, servers: tuple[str, ...]) -> bool:
        del servers
        self.url = leader
        is_new = leader is not None and leader not in self._followed
        self._followed |= {leader} if leader is not None else set()
        return is_new

    def silent(self) -> None:
        self.url = None
