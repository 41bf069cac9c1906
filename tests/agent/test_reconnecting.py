"""An agent and its servers: sent on, left alone, kept waiting; in virtual time."""

import asyncio
import time
from random import Random

import msgspec
import pytest

from tests.agent.test_shell import Server, greeting, play
from tgpu.agent.channel import Channel, Listener
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.shell import Agent, AgentRefusedError
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import Elsewhere, Greeting, Heard, Heartbeat, Hello, NodeUse
from tgpu.runner.fake import Behaviour, FakeMachine, FakeRunner


class Guide:
    """Writes down what the agent learns."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self._leaders: set[str | None] = {None}

    def welcomed(self, servers: tuple[str, ...]) -> None:
        self.told.append(("welcomed", servers))

    def sent_on(self, leader: str | None, servers: tuple[str, ...]) -> bool:
        self.told.append(("sent on", leader, servers))
        is_new = leader not in self._leaders
        self._leaders.add(leader)
        return is_new

    def silent(self) -> None:
        self.told.append("silent")


class Calls(Server):
    """Notes when it was called."""

    def __init__(self, *, answers: bool = True) -> None:
        super().__init__()
        self.at: list[float] = []
        self.answers = answers

    async def dial(self, listener: Listener) -> Channel:
        self.at.append(asyncio.get_running_loop().time())
        if not self.answers:
            raise ConnectionRefusedError
        return await super().dial(listener)


def agent_of(
    server: Server, guide: Guide | None = None, cluster_id: str | None = None, seed: int = 0
) -> Agent:
    machine = FakeMachine(lambda _spec: Behaviour(3.0), now_ms=lambda: 1000)

    async def discover() -> Capacity:
        return Capacity(4000, 1024, 0)

    async def measure() -> NodeUse:
        return NodeUse()

    return Agent(
        identity=NodeIdentity(
            node_id="n1", boot_id="b", pool="p", labels={}, serves="*", cluster_id=cluster_id, key="k"
        ),
        dial=server.dial,
        guide=guide,
        runner_for=lambda _cluster_id: FakeRunner(machine),
        discover=discover,
        measure=measure,
        heartbeat_s=5.0,
        log_cap_bytes=0,
        everybodys_env={},
        random=Random(seed),
        spread_s=1.0,
        clock_ms=lambda: 4711,
    )


def test_a_node_shows_its_key_and_its_clock() -> None:
    async def story() -> None:
        server, guide = Server(), Guide()
        asyncio.create_task(agent_of(server, guide, "c").run())  # noqa: RUF006  the story is its whole life
        await asyncio.sleep(0.1)
        server.say(
            Greeting(protocol=greeting().protocol, cluster_id="c", epoch=1, session=1, servers=("a", "b"))
        )
        await asyncio.sleep(0.1)
        (hello,) = server.streams[0].said(Hello)
        assert (hello.key, hello.clock_ms) == ("k", 4711)
        assert guide.told == [("welcomed", ("a", "b"))]

    play(story())


def test_a_key_is_not_shown_to_another_cluster() -> None:
    async def story() -> None:
        server = Server()
        working = asyncio.create_task(agent_of(server, cluster_id="c").run())
        await asyncio.sleep(0.1)
        server.say(greeting(cluster_id="d"))
        with pytest.raises(
            AgentRefusedError, match="this node has joined cluster c, but the server belongs to d"
        ):
            await working
        assert server.streams[0].sent == []

    play(story())


def test_an_agent_that_is_sent_on_calls_again_within_a_second() -> None:
    async def story() -> None:
        server, guide = Calls(), Guide()
        working = asyncio.create_task(agent_of(server, guide).run())
        await asyncio.sleep(0.1)
        server.say(Elsewhere(leader="https://b:1", servers=("https://a:1", "https://b:1")))
        await asyncio.sleep(1.1)
        assert guide.told == [("sent on", "https://b:1", ("https://a:1", "https://b:1"))]
        assert len(server.at) == 2
        working.cancel()

    play(story())


def test_servers_that_send_an_agent_in_circles_are_called_less_and_less() -> None:
    async def story() -> None:
        server = Calls()
        working = asyncio.create_task(agent_of(server, Guide()).run())
        for _ in range(600):
            await asyncio.sleep(0.1)
            if server.streams and not server.streams[-1]._over.is_set():
                server.say(Elsewhere(leader="https://b:1"))
        assert len(server.at) < 40
        working.cancel()

    play(story())


def test_a_leader_that_is_newly_named_is_called_at_once_however_long_nobody_led() -> None:
    async def story() -> None:
        server, guide = Calls(), Guide()
        working = asyncio.create_task(agent_of(server, guide).run())
        while len(server.at) < 12:
            await asyncio.sleep(0.1)
            if server.streams and not server.streams[-1]._over.is_set():
                server.say(Elsewhere(leader=None))
        pauses = [later - earlier for earlier, later in zip(server.at, server.at[1:], strict=False)]
        assert pauses[-1] > 1.5, "by then it waits long between two calls"
        server.say(Elsewhere(leader="https://b:1"))
        await asyncio.sleep(1.1)
        assert len(server.at) == 13
        assert "silent" not in guide.told, "a server that says that nobody leads has answered"
        working.cancel()

    play(story())


def test_agents_that_lose_their_server_together_do_not_come_back_together() -> None:
    async def story() -> None:
        servers = [Calls() for _ in range(100)]
        agents = [agent_of(server, seed=seed) for seed, server in enumerate(servers)]
        working = [asyncio.create_task(agent.run()) for agent in agents]
        await asyncio.sleep(0.1)
        for server in servers:
            server.say(greeting())
        await asyncio.sleep(0.9)
        for server in servers:
            server.streams[0].close()
        await asyncio.sleep(1.1)
        pauses = sorted(server.at[1] - 1.0 for server in servers)
        assert pauses[0] < 0.1
        assert 0.3 < pauses[50] < 0.7
        assert 0.9 < pauses[-1] <= 1.0
        for task in working:
            task.cancel()

    play(story())


def test_a_server_that_is_not_there_is_called_every_few_seconds() -> None:
    async def story() -> None:
        server = Calls(answers=False)
        working = asyncio.create_task(agent_of(server).run())
        await asyncio.sleep(60)
        pauses = [later - earlier for earlier, later in zip(server.at, server.at[1:], strict=False)]
        assert pauses[0] < 0.1
        assert all(1.5 <= pause <= 4.5 for pause in pauses[8:])
        working.cancel()

    play(story())


def test_a_server_that_does_not_answer_heartbeats_is_left() -> None:
    async def story() -> None:
        server, guide = Server(), Guide()
        agent = agent_of(server, guide)
        working = asyncio.create_task(agent.run())
        await asyncio.sleep(0.5)
        server.say(greeting())
        await asyncio.sleep(5)
        assert agent.last_heard is None
        server.say(Heard(sent=server.streams[0].said(Heartbeat)[-1].sent))
        assert agent.last_heard == 5.0
        await asyncio.sleep(5.4)  # the next was sent at 7.5 s, and is waited for until 11 s
        assert not server.streams[0]._over.is_set()
        await asyncio.sleep(0.2)
        assert server.streams[0]._over.is_set()
        assert guide.told == [("welcomed", ()), "silent"]
        await asyncio.sleep(1)
        assert len(server.streams) == 2
        assert agent.last_heard == 5.0, "what was heard last is still known"
        working.cancel()

    play(story())


def test_a_server_that_answers_is_kept_for_ever() -> None:
    async def story() -> None:
        server = Server()
        agent = agent_of(server)
        working = asyncio.create_task(agent.run())
        await asyncio.sleep(0.1)
        server.say(greeting())
        for _ in range(40):
            await asyncio.sleep(5)
            server.say(Heard(sent=server.streams[0].said(Heartbeat)[-1].sent))
        assert len(server.streams) == 1
        assert agent.last_heard == 200.0
        working.cancel()

    play(story())


def test_an_answer_to_nothing_is_none() -> None:
    async def story() -> None:
        server = Server()
        agent = agent_of(server)
        working = asyncio.create_task(agent.run())
        await asyncio.sleep(0.1)
        server.say(greeting())
        server.say(Heard(sent=99.0))
        await asyncio.sleep(5)
        server.say(Heard(sent=99.0))
        server.say(Heard(sent=0.01))
        assert agent.last_heard is None
        working.cancel()

    play(story())


def test_a_server_that_does_not_greet_is_left_for_another() -> None:
    async def story() -> None:
        server = Server()
        working = asyncio.create_task(agent_of(server).run())
        await asyncio.sleep(7.9)
        assert len(server.streams) == 1
        await asyncio.sleep(0.5)
        assert len(server.streams) == 2
        working.cancel()

    play(story())


def test_servers_that_do_not_greet_are_given_more_and_more_time() -> None:
    """They may be at work for ten thousand others: who hangs up and calls again only makes it worse."""

    async def story() -> None:
        server = Calls()
        working = asyncio.create_task(agent_of(server).run())
        await asyncio.sleep(140)
        pauses = [later - earlier for earlier, later in zip(server.at, server.at[1:], strict=False)]
        assert [round(pause) for pause in pauses[:4]] == [8, 16, 30, 30]
        server.say(greeting())
        await asyncio.sleep(0.1)
        server.streams[-1].close()
        await asyncio.sleep(1.1)
        calls = len(server.at)
        await asyncio.sleep(8.5)
        assert len(server.at) == calls + 1, "one of them has greeted: the next is not given so much"
        working.cancel()

    play(story())


def test_an_acknowledged_heartbeat_renews_the_lease_of_tasks_that_live_at_most_once() -> None:
    async def story() -> None:
        server = Server()
        agent = agent_of(server)
        working = asyncio.create_task(agent.run())
        await asyncio.sleep(0.1)
        server.say(msgspec.structs.replace(greeting(), lease_s=12.0))
        before_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        await asyncio.sleep(0.1)
        runner = agent._runner
        assert isinstance(runner, FakeRunner)
        (first,) = server.streams[0].said(Heartbeat)
        assert runner._machine.heard is None, "that it was sent says nothing"
        server.say(Heard(sent=first.sent + 1))
        assert runner._machine.heard is None, "nothing of the kind was said"
        server.say(Heard(sent=first.sent))
        assert runner._machine.heard is not None
        stamp_ns, lease_s = runner._machine.heard
        assert lease_s == 12.0
        assert before_ns <= stamp_ns <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        working.cancel()

    play(story())
