"""The whole simulated installation: one store, some servers, some machines, and who is up at the moment."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from tgpu.core.picture import Picture
from tgpu.domain.node import Capacity, Device
from tgpu.sim.agent import AgentProcess
from tgpu.sim.chance import happens
from tgpu.sim.facts import Facts
from tgpu.sim.loop import SimLoop
from tgpu.sim.machine import Machine
from tgpu.sim.network import Mood, Network
from tgpu.sim.server import ServerProcess
from tgpu.sim.store import SimStore
from tgpu.sim.stream import Server
from tgpu.sim.tenants import found
from tgpu.sim.trace import Trace
from tgpu.store.port import StoreUnavailableError

T = TypeVar("T")
PATIENCE_S = 3.0
MODELS = ("NVIDIA A100-SXM4-80GB", "Tesla T4")


class World:
    def __init__(self, loop: SimLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.trace = trace
        self.facts = Facts(trace)
        self._random = random
        self.store = SimStore(random, self.facts, trace)
        mood = Mood(slowest_s=random.choice((0.005, 0.05, 0.5)), unruly=happens(random, 0.5))
        self.network = Network(loop, random, trace, mood, self.facts.greeted)
        self.machines = [
            Machine(loop, random, self.facts, f"n{number}", capacity(random, number))
            for number in range(1, random.choice((1, 2, 2, 3, 3, 4)) + 1)
        ]
        self._hosts = [f"server{number}" for number in range(1, random.choice((1, 2, 2, 3)) + 1)]
        self.servers: list[ServerProcess] = []
        """Those that live: one leads, or thinks so in its sleep, the others follow."""
        self.agents: dict[str, AgentProcess] = {}
        self._policy = random.choice(("drf", "drf", "fair-tree", "priority", "fifo"))
        self._lives = 0

    async def begin(self) -> None:
        await found(self.store, self._random)
        self.ensure_servers()
        for machine in self.machines:
            self.start_agent(machine)

    # Servers

    @property
    def leader(self) -> ServerProcess | None:
        """Who leads in truth."""
        return next((server for server in self.servers if server.leads), None)

    @property
    def picture(self) -> Picture | None:
        """The leader's."""
        leader = self.leader
        return leader.control.picture if leader is not None and leader.control is not None else None

    def _start_server(self, host: str) -> None:
        self._lives += 1
        server = ServerProcess(
            name=f"{host}.{self._lives}",
            host=host,
            shared=len(self._hosts) > 1,
            loop=self.loop,
            random=self._random,
            store=self.store,
            facts=self.facts,
            trace=self.trace,
            policy=self._policy,
            on_exit=self._server_ended,
        )
        self.servers.append(server)
        self.network.servers.append(Server(server.incarnation, f"sim://{host}", server.accept))
        self.trace.add(server.incarnation.name, "starts")
        server.start()

    def crash_server(self, server: ServerProcess) -> None:
        if not server.incarnation.alive:
            return
        self.trace.add(server.incarnation.name, "crashes")
        server.incarnation.alive = False
        self.servers.remove(server)
        self.network.servers = [s for s in self.network.servers if s.incarnation is not server.incarnation]
        self.network.crashed(server.incarnation)

    def _server_ended(self, server: ServerProcess) -> None:
        """It gave up by itself; whoever started it starts it again."""
        self.crash_server(server)
        self.loop.outside(self._random.uniform(0.1, 2), self.ensure_servers)

    def ensure_servers(self) -> None:
        for host in self._hosts:
            if not any(server.host == host for server in self.servers):
                self._start_server(host)

    # Agents and their machines

    def start_agent(self, machine: Machine) -> None:
        if machine.node_id in self.agents:
            return
        self._lives += 1
        agent = AgentProcess(
            name=f"{machine.node_id}.agent{self._lives}",
            loop=self.loop,
            random=self._random,
            machine=machine,
            network=self.network,
            facts=self.facts,
            trace=self.trace,
            on_exit=self.crash_agent,
        )
        self.agents[machine.node_id] = agent
        self.trace.add(agent.incarnation.name, "starts")
        agent.start()

    def crash_agent(self, agent: AgentProcess, *, with_machine: bool = False) -> None:
        if not agent.incarnation.alive:
            return
        self.trace.add(agent.incarnation.name, "goes down with its machine" if with_machine else "crashes")
        agent.incarnation.alive = False
        del self.agents[agent.machine.node_id]
        if with_machine:
            self.network.vanished(agent.incarnation)
            agent.machine.reboot()
        else:
            self.network.crashed(agent.incarnation)
            agent.machine.agent_gone()

    # Users

    def now_ms(self) -> int:
        return round(self.loop.time() * 1000)

    async def ask(self, question: Callable[[SimStore], Coroutine[Any, Any, T]]) -> T:
        while True:
            if self.servers:
                try:
                    return await self._random.choice(self.servers).ask(question, PATIENCE_S)
                except (TimeoutError, StoreUnavailableError):
                    pass
            await asyncio.sleep(self._random.uniform(0.1, 1))


def capacity(random: Random, number: int) -> Capacity:
    model = random.choice(MODELS)
    mixed = happens(random, 0.2)
    devices = tuple(
        Device(
            index=index,
            uuid=f"GPU-{number}-{index}",
            model=random.choice(MODELS) if mixed else model,
            memory_mib=16384,
            numa_node=index // 2,
        )
        for index in range(random.choice((0, 1, 2, 4)))
    )
    return Capacity(cpu_milli=random.choice((2000, 8000)), memory_mib=16384, disk_mib=0, devices=devices)
