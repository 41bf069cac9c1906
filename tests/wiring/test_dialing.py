"""An agent among several servers: it finds the leader, follows it, and is not talked out of TLS."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.wiring.cluster_server import ClusterServer, cluster
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.session_record import SessionRecord
from tgpu.agent.shell import Agent
from tgpu.domain.node import Capacity
from tgpu.protocol.messages import FromServer, Greeting, NodeUse
from tgpu.runner.fake import Behaviour, FakeMachine, FakeRunner
from tgpu.store.memory import MemoryStore
from tgpu.wiring import dialing
from tgpu.wiring.dialing import TcpDial


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[ClusterServer, ClusterServer]]:
    """Two of one cluster: the second leads."""
    store = MemoryStore()
    with cluster(tmp_path, store) as first, cluster(tmp_path, store) as second:
        follow(first, second.url)
        yield first, second


def follow(server: ClusterServer, leader: str | None) -> None:
    async def change() -> None:
        server.hub.step_down()
        server.hub.follow(leader, ())

    server.run(change())


def lead(server: ClusterServer, epoch: int) -> None:
    async def change() -> None:
        server.hub.lead(server.store.cluster_id, epoch)

    server.run(change())


class Ear:
    def __init__(self) -> None:
        self.heard: asyncio.Queue[FromServer] = asyncio.Queue()

    def received(self, message: FromServer) -> None:
        self.heard.put_nowait(message)


def agent_of(
    dial: TcpDial, key: str, cluster_id: str, instance: str = "", sessions: SessionRecord | None = None
) -> Agent:
    async def discover() -> Capacity:
        return Capacity(4000, 1024, 0)

    async def measure() -> NodeUse:
        return NodeUse()

    machine = FakeMachine(lambda _spec: Behaviour(1.0), now_ms=lambda: 0)
    return Agent(
        identity=NodeIdentity(
            node_id="n1",
            boot_id="b",
            pool="default",
            labels={},
            serves="*",
            key=key,
            cluster_id=cluster_id,
            instance=instance,
        ),
        sessions=sessions,
        dial=dial,
        guide=dial,
        runner_for=lambda _cluster_id: FakeRunner(machine),
        discover=discover,
        measure=measure,
        heartbeat_s=0.2,
        log_cap_bytes=0,
        everybodys_env={},
        random=Random(0),
        spread_s=0.1,
    )


async def until_at(server: ClusterServer) -> None:
    async with asyncio.timeout(60):
        while server.hub.session_of("n1") is None:  # noqa: ASYNC110  it happens in another thread
            await asyncio.sleep(0.01)


def test_an_agent_goes_where_it_is_sent_and_comes_back_when_the_leader_changes(
    servers: tuple[ClusterServer, ClusterServer],
) -> None:
    first, second = servers
    remembered: list[tuple[str, ...]] = []
    key = first.key_of("n1")

    async def story() -> None:
        dial = TcpDial([first.url], first.entrance.ca_pem, Random(0), remembered.append)
        agent = agent_of(dial, key, first.store.cluster_id)
        working = asyncio.create_task(agent.run())
        await until_at(second)
        async with asyncio.timeout(60):
            while agent.last_heard is None:  # noqa: ASYNC110  an agent tells nobody
                await asyncio.sleep(0.01)
        lead(first, 2)
        follow(second, first.url)
        await until_at(first)
        working.cancel()

    asyncio.run(story())
    assert set(remembered[-1]) == {first.url, second.url}


def test_a_leader_that_died_is_left_for_another(servers: tuple[ClusterServer, ClusterServer]) -> None:
    first, second = servers
    key = first.key_of("n1")

    async def story() -> None:
        dial = TcpDial([first.url, second.url], first.entrance.ca_pem, Random(0))
        working = asyncio.create_task(agent_of(dial, key, first.store.cluster_id).run())
        await until_at(second)
        lead(first, 2)
        await asyncio.to_thread(second.run, _cut(second))
        second.entrance.listener.close()
        await until_at(first)
        working.cancel()

    asyncio.run(story())


async def _cut(server: ClusterServer) -> None:
    """As a process that dies: its port is closed, and its streams are."""
    for listening in server._api.servers:
        listening.close()
    server.hub.hang_up()


def test_a_stopped_server_does_not_hold_an_agent_up(
    servers: tuple[ClusterServer, ClusterServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes connections, as its kernel does, and says nothing."""
    monkeypatch.setattr(dialing, "FIRST_PATIENCE_S", 0.3)
    _, second = servers

    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            silent = f"https://127.0.0.1:{deaf.getsockname()[1]}"
            dial = TcpDial([silent, second.url], second.entrance.ca_pem, Random(0))
            dial.sent_on(silent, ())
            with pytest.raises(TimeoutError):
                await dial(Ear())
            ear = Ear()
            link = await _until_connected(dial, ear)
            assert isinstance(await ear.heard.get(), Greeting)
            link.close()
            await link.closed()

    asyncio.run(story())


async def _until_connected(dial: TcpDial, ear: Ear) -> dialing.ServerLink:
    async with asyncio.timeout(60):
        while True:
            try:
                return await dial(ear)
            except OSError:
                continue


def test_a_server_with_another_authority_is_not_spoken_to(tmp_path: Path) -> None:
    with cluster(tmp_path) as server, cluster(tmp_path) as other:

        async def story() -> None:
            dial = TcpDial([server.url], other.entrance.ca_pem, Random(0))
            with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
                await dial(Ear())

        asyncio.run(story())


def test_nobody_talks_a_node_out_of_tls() -> None:
    remembered: list[tuple[str, ...]] = []

    async def story() -> None:
        dial = TcpDial(["https://127.0.0.1:9"], None, Random(0), remembered.append)
        dial.sent_on(
            "http://127.0.0.1:10", ("http://127.0.0.1:10", "https://gpu2:7480", "https://x", "nonsense")
        )
        assert dial._choose() in {"https://127.0.0.1:9", "https://gpu2:7480"}

    asyncio.run(story())
    assert remembered == [("https://gpu2:7480", "https://127.0.0.1:9")]


def test_a_server_that_fell_silent_is_called_last() -> None:
    urls = [f"https://127.0.0.1:{port}" for port in (1, 2, 3)]

    async def story() -> None:
        dial = TcpDial(urls, None, Random(1))
        with pytest.raises(OSError, match="Connect call failed"):
            await dial(Ear())
        silent = dial._called
        dial.welcomed(())
        assert dial._choose() == silent
        dial.silent()
        called = []
        for _ in urls:
            with pytest.raises(OSError, match="Connect call failed"):
                await dial(Ear())
            called.append(dial._called)
        assert silent not in called[:2]
        dial.sent_on(silent, ())
        assert dial._leader is None, "the others have not noticed yet"
        dial._called = silent
        dial.welcomed(())
        dial.sent_on(silent, ())
        assert dial._leader == silent, "it is back"

    asyncio.run(story())


def test_silent_server_is_called_if_it_is_named_once_the_others_must_have_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the database is away no server greets, and one of those that did not is the next leader."""
    first, second = (f"https://127.0.0.1:{port}" for port in (1, 2))

    async def story() -> None:
        dial = TcpDial([first, second], None, Random(1))
        dial._called = first
        dial.silent()
        dial._called = second
        assert not dial.sent_on(first, ()), "it may have died, and the others have not noticed yet"
        monkeypatch.setattr(dialing, "NOTICED_S", 0.0)
        assert dial.sent_on(first, ()), "it leads: it is called at once"
        assert dial._choose() == first

    asyncio.run(story())


def test_every_known_server_is_tried_before_one_is_tried_again() -> None:
    urls = [f"https://127.0.0.1:{port}" for port in (1, 2, 3)]

    async def story() -> None:
        dial = TcpDial(urls, None, Random(1))
        for _ in range(2):
            called = set()
            for _ in urls:
                with pytest.raises(OSError, match="Connect call failed"):
                    await dial(Ear())
                called.add(dial._called)
            assert called == set(urls)

    asyncio.run(story())


def test_a_leader_that_refuses_the_call_is_not_called_again_before_the_others_are() -> None:
    dead, follower, other = (f"https://127.0.0.1:{port}" for port in (1, 2, 3))

    async def story() -> None:
        dial = TcpDial([dead, follower, other], None, Random(1))
        dial._called = dead
        dial.welcomed((follower, other))
        with pytest.raises(OSError, match="Connect call failed"):
            await dial(Ear())
        assert dial._called == dead
        dial._called = follower
        dial._tried.add(follower)
        assert not dial.sent_on(dead, ()), "the others have not noticed yet"
        assert dial._choose() == other
        assert dial.sent_on(follower, ()), "it leads now: it is called at once"
        assert dial._choose() == follower
        assert not dial.sent_on(follower, ()), "it was named before, and did not welcome us"

    asyncio.run(story())
