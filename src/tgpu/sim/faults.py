"""What goes wrong, and when: one fault after another, drawn by the seed, until it is enough."""

import asyncio
from collections.abc import Callable
from random import Random

from tgpu.sim.chance import happens
from tgpu.sim.loop import Incarnation
from tgpu.sim.machine import Machine
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
            self._depose_server,
            self._stall_server,
            self._partition,
            self._snap,
            self._snap,
            self._store_outage,
            self._flaky_store,
            self._lose_supervisor,
            self._device_falls_ill,
        ]

    async def run(self, for_s: float) -> None:
        loop = self._world.loop
        until = loop.time() + for_s
        mean_s = self._random.choice((1.0, 3.0, 6.0))
        while (wait := self._random.expovariate(1 / mean_s)) + loop.time() < until:
            await asyncio.sleep(wait)
            self._random.choice(self._kinds)()

    def stop(self) -> None:
        """No new fault from now on, and everything that went down comes back."""
        world = self._world
        world.trace.add("world", "quiesces")
        world.network.calm()
        world.store.away, world.store.flaky = False, 0.0
        for incarnation in self._paused:
            world.loop.resume(incarnation)
        for server in world.servers:
            server.incarnation.fuse = None
        for agent in world.agents.values():
            agent.incarnation.fuse = None
        for machine in world.machines:
            machine.recover()
            world.start_agent(machine)
        world.ensure_server()

    def _machine(self) -> Machine:
        return self._random.choice(self._world.machines)

    def _soon(self, seconds: float, what: Callable[[], None]) -> None:
        self._world.loop.outside(self._random.uniform(0, seconds), what)

    def _crash_server(self) -> None:
        """After some more of its own steps: in the middle of whatever it is doing by then."""
        server = self._world.server
        if server is None:
            return

        def crash() -> None:
            self._world.crash_server(server)
            self._soon(4, self._world.ensure_server)

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

    def _pause_server(self) -> None:
        server = self._world.server
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

    def _stall_server(self) -> None:
        """It stops for a while and then goes on as if nothing had been."""
        self._pause_server()

    def _depose_server(self) -> None:
        """It stops, another one takes over, and the old one wakes up and knows nothing of it."""
        self._pause_server()
        self._world.start_server()
        for machine in self._world.machines:
            if happens(self._random, 0.7):  # the others stay with the old one at first
                self._world.network.snap(machine.node_id)

    def _partition(self) -> None:
        machine = self._machine()
        seconds = self._random.uniform(0, 25)
        self._world.trace.add("network", f"cuts {machine.node_id} off for {seconds:.1f} s")
        self._world.network.partition(machine.node_id, seconds)
        if happens(self._random, 0.5):
            self._world.network.snap(machine.node_id)

    def _snap(self) -> None:
        self._world.network.snap(self._machine().node_id)

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
        machine = self._machine()
        if machine.capacity.devices:
            machine.fall_ill(self._random.randrange(len(machine.capacity.devices)))
            self._soon(10, machine.recover)
