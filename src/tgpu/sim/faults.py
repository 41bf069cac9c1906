"""What goes wrong, and when: one fault after another, drawn by the seed, until it is enough."""

import asyncio
from collections.abc import Callable
from random import Random

from tgpu.protocol.framing import encode
from tgpu.protocol.messages import AttemptReport, Phase, Report
from tgpu.sim.chance import happens
from tgpu.sim.loop import Incarnation
from tgpu.sim.machine import Machine
from tgpu.sim.server import ServerProcess
from tgpu.sim.world import World


class Faults:
    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._paused: list[Incarnation] = []
        self._kinds: list[Callable[[], None]] = [
            self._crash_server,
            self._crash_server,
            self._crash_agent,
            self._crash_agent,
            self._reboot,
            self._reboot,
            self._crash_both,
            self._pause_leader,
            self._pause_leader,
            self._cut_leader_off_from_the_store,
            self._partition,
            self._partition,
            self._cut_everybody_off,
            self._snap,
            self._garble,
            self._store_outage,
            self._flaky_store,
            self._lose_supervisor,
            self._device_falls_ill,
            self._device_falls_ill,
        ]

    async def storm(self, for_s: float) -> None:
        """Everything, all the time."""
        await self._draw(self._kinds, self._random.choice((1.0, 3.0, 6.0)), for_s)

    async def cuts(self, for_s: float) -> None:
        """Nodes come and go, and servers have the time to notice."""
        kinds = [self._long_cut] * 16 + [self._cut_everybody_off, self._crash_server, self._crash_agent]
        await self._draw([*kinds, self._reboot, self._store_outage], 4.0, for_s)

    async def _draw(self, kinds: list[Callable[[], None]], mean_s: float, for_s: float) -> None:
        loop = self._world.loop
        until = loop.time() + for_s
        while (wait := self._random.expovariate(1 / mean_s)) + loop.time() < until:
            await asyncio.sleep(wait)
            self._random.choice(kinds)()

    def stop(self) -> None:
        """No new fault from now on, and everything that went down comes back."""
        world = self._world
        world.trace.add("world", "quiesces")
        world.network.calm()
        world.store.away, world.store.flaky = False, 0.0
        world.store.cut_off.clear()
        for incarnation in self._paused:
            world.loop.resume(incarnation)
        for server in world.servers:
            server.incarnation.fuse = None
        for agent in world.agents.values():
            agent.incarnation.fuse = None
        for machine in world.machines:
            machine.is_fragile = False
            machine.recover()
            world.start_agent(machine)
        world.ensure_servers()

    async def lose_a_node(self, for_s: float) -> None:
        """Nothing else goes wrong, unless the leader dies at the same moment: nobody has an excuse."""
        world = self._world
        await asyncio.sleep(self._random.uniform(3, 15))
        machine, leader = self._machine(), world.leader
        agent = world.agents.get(machine.node_id)
        if agent is None or leader is None or len(world.machines) == 1:
            return
        world.facts.gone[machine.node_id] = world.loop.time()
        world.crash_agent(agent, with_machine=True)
        if happens(self._random, 0.5):
            world.crash_server(leader)
            self._soon(1, world.ensure_servers)
        await asyncio.sleep(31 + self._random.uniform(0, for_s))

    def _server(self) -> ServerProcess | None:
        """Mostly the leader: what happens to the others is noticed by few."""
        leader, servers = self._world.leader, self._world.servers
        if leader is not None and happens(self._random, 0.8):
            return leader
        return self._random.choice(servers) if servers else None

    def _machine(self) -> Machine:
        return self._random.choice(self._world.machines)

    def _soon(self, seconds: float, what: Callable[[], None]) -> None:
        self._world.loop.outside(self._random.uniform(0, seconds), what)

    def _crash_server(self) -> None:
        """After some more of its own steps: in the middle of whatever it is doing by then."""
        server = self._server()
        if server is None:
            return

        def crash() -> None:
            self._world.crash_server(server)
            self._soon(self._random.choice((4, 20)), self._world.ensure_servers)

        server.incarnation.on_fuse = crash
        server.incarnation.fuse = self._random.randint(1, 60)

    def _crash_agent(self, machine: Machine | None = None) -> None:
        machine = machine or self._machine()
        agent = self._world.agents.get(machine.node_id)
        if agent is None:
            return

        def crash() -> None:
            self._world.crash_agent(agent)
            self._soon(4, lambda: self._world.start_agent(machine))
            for _ in range(2):  # its return is not smooth either
                self._soon(8, lambda: self._world.network.snap(machine.node_id))

        agent.incarnation.on_fuse = crash
        agent.incarnation.fuse = self._random.randint(1, 30)

    def _reboot(self) -> None:
        machine = self._machine()
        agent = self._world.agents.get(machine.node_id)
        if agent is not None:
            self._world.crash_agent(agent, with_machine=True)
            self._soon(20, lambda: self._world.start_agent(machine))

    def _crash_both(self) -> None:
        self._crash_server()
        self._reboot()

    def _pause_leader(self) -> None:
        """It stops, another one may take over, and the old one wakes up and knows nothing of it."""
        server = self._server()
        if server is None:
            return
        incarnation = server.incarnation
        self._world.trace.add(incarnation.name, "is paused")
        incarnation.paused = True
        self._paused.append(incarnation)

        def resume() -> None:
            self._world.trace.add(incarnation.name, "is resumed")
            self._world.loop.resume(incarnation)

        self._soon(25, resume)

    def _cut_leader_off_from_the_store(self) -> None:
        """It hears its nodes, and can write nothing."""
        leader = self._world.leader
        if leader is None:
            return
        name, store = leader.incarnation.name, self._world.store
        self._world.trace.add(name, "is cut off from the store")
        store.cut_off.add(name)
        self._soon(15, lambda: store.cut_off.discard(name))

    def _partition(self) -> None:
        machine = self._machine()
        seconds = self._random.uniform(0, self._random.choice((10, 25, 60)))
        self._cut_off(machine, seconds)
        if happens(self._random, 0.5):
            self._world.network.snap(machine.node_id)

    def _long_cut(self) -> None:
        """One at a time, for about as long as it takes to be lost: then its tasks have just moved."""
        busiest = max(self._world.machines, key=lambda machine: len(machine.live))
        if not any(self._world.network.is_cut_off(machine.node_id) for machine in self._world.machines):
            self._cut_off(busiest, self._random.uniform(12, self._random.choice((20, 40))))

    def _cut_everybody_off(self) -> None:
        """From all servers at once, as if those had lost their network."""
        seconds = self._random.uniform(0, 30)
        for machine in self._world.machines:
            self._cut_off(machine, seconds)

    def _cut_off(self, machine: Machine, seconds: float) -> None:
        self._world.trace.add("network", f"cuts {machine.node_id} off for {seconds:.1f} s")
        self._world.network.partition(machine.node_id, seconds)

    def _snap(self) -> None:
        self._world.network.snap(self._machine().node_id)

    def _garble(self) -> None:
        """A node says something that is not valid: a frame of nonsense, or a hostile report."""
        hostile = Report(seq=0, attempts=(AttemptReport(attempt="9" * 40 + ".0.1", phase=Phase.RUNNING),))
        frame = self._random.choice((b"\0\0\0\1\xc1", encode(hostile)))
        self._world.network.garble(self._machine().node_id, frame)

    def _store_outage(self) -> None:
        store = self._world.store
        self._world.trace.add("store", "is away")
        store.away = True

        def back() -> None:
            self._world.trace.add("store", "is back")
            store.away = False

        self._soon(6, back)

    def _flaky_store(self) -> None:
        store = self._world.store
        store.flaky = 0.2

        def well() -> None:
            store.flaky = 0.0

        self._soon(10, well)

    def _lose_supervisor(self) -> None:
        self._machine().lose_supervisor()

    def _device_falls_ill(self) -> None:
        """And one more under the next task that gets one: others are missed by nobody."""
        machine = self._machine()
        if machine.capacity.devices:
            machine.fall_ill(self._random.randrange(len(machine.capacity.devices)))
            machine.is_fragile = True
            self._soon(10, machine.recover)
