"""The agent around its machine: greetings, cluster, epoch, output; in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from tgpu.agent.channel import Channel, Listener
from tgpu.agent.identity import NodeIdentity
from tgpu.agent.shell import Agent, AgentRefusedError
from tgpu.domain.node import Capacity, Device
from tgpu.protocol.messages import (
    PROTOCOL,
    FromAgent,
    FromServer,
    Greeting,
    Heartbeat,
    Hello,
    KnowsNewer,
    Launch,
    LogChunk,
    NodeUse,
    Orders,
    Phase,
    ReadLog,
    Refused,
    Report,
)
from tgpu.runner.fake import Behaviour, FakeMachine, FakeRunner
from tgpu.runner.port import AttemptStarted, RunnerEvent
from tgpu.sim.loop import SimLoop


class Stream:
    """A channel whose other end is the test."""

    def __init__(self) -> None:
        self.sent: list[FromAgent] = []
        self._over = asyncio.Event()

    def send(self, message: FromAgent) -> None:
        self.sent.append(message)

    def close(self) -> None:
        self._over.set()

    async def closed(self) -> None:
        await self._over.wait()

    def said(self, kind: type[Any]) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kind)]


class Server:
    """Takes every call; `say` speaks on the newest stream."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self._listener: Listener | None = None

    async def dial(self, listener: Listener) -> Channel:
        self._listener = listener
        self.streams.append(Stream())
        return self.streams[-1]

    def say(self, message: FromServer) -> None:
        assert self._listener is not None
        self._listener.received(message)


class SlowRunner(FakeRunner):
    """Takes a second to read its records."""

    async def open(self, on_event: Callable[[RunnerEvent], None]) -> list[RunnerEvent]:
        await asyncio.sleep(1)
        return [AttemptStarted("1.0.1", 500), *await super().open(on_event)]


def greeting(epoch: int = 1, session: int = 1, cluster_id: str = "c", protocol: int = PROTOCOL) -> Greeting:
    return Greeting(protocol=protocol, cluster_id=cluster_id, epoch=epoch, session=session)


def start_agent(
    server: Server,
    runner: type[FakeRunner] = FakeRunner,
    blind_after_s: float = 1e9,
    busy: tuple[int | None, ...] = (),
    lasts_s: float = 3.0,
) -> asyncio.Task[None]:
    """`blind_after_s`: from when on its devices cannot be found any more. `busy`: how much they are."""
    machine = FakeMachine(lambda _spec: Behaviour(lasts_s, output=b"hello\n"), now_ms=lambda: 1000)
    devices = tuple(Device(index, f"GPU-{index}", "A100", 1) for index in range(len(busy)))

    async def discover() -> Capacity:
        if asyncio.get_running_loop().time() >= blind_after_s:
            raise OSError("the driver is gone")
        return Capacity(4000, 1024, 0, devices)

    async def measure() -> NodeUse:
        return NodeUse(gpu_percent=busy)

    agent = Agent(
        identity=NodeIdentity(
            node_id="n1", boot_id="b", pool="default", labels={}, serves="*", taints=("spot",)
        ),
        dial=server.dial,
        runner_for=lambda _cluster_id: runner(machine),
        discover=discover,
        measure=measure,
        heartbeat_s=5.0,
        log_cap_bytes=0,
        everybodys_env={},
        random=Random(0),
    )
    return asyncio.create_task(agent.run())


def play(story: Coroutine[Any, Any, None]) -> None:
    loop = SimLoop(Random(0))
    try:
        loop.run_until_complete(story)
    finally:
        loop.dispose()


def launch(attempt: str, devices: tuple[int, ...] = (), gpu_milli: int = 0) -> Launch:
    return Launch(
        attempt=attempt,
        job_name="",
        user="ada",
        command=["true"],
        cwd="/",
        env={},
        devices=devices,
        cpu_milli=0,
        memory_mib=0,
        gpu_milli=gpu_milli,
        time_limit_s=None,
        grace_s=1,
    )


def test_a_greeting_is_answered_with_everything_the_node_has() -> None:
    async def story() -> None:
        server = Server()
        start_agent(server, SlowRunner)
        await asyncio.sleep(0.1)
        server.say(greeting())
        await asyncio.sleep(2)
        (hello,) = server.streams[0].said(Hello)
        assert [(report.attempt, report.phase) for report in hello.attempts] == [("1.0.1", Phase.RUNNING)]
        assert hello.taints == ("spot",)

    play(story())


def test_no_hello_is_said_before_the_records_are_read_even_if_the_stream_breaks_meanwhile() -> None:
    async def story() -> None:
        server = Server()
        start_agent(server, SlowRunner)
        await asyncio.sleep(0.1)
        server.say(greeting(session=1))
        await asyncio.sleep(0.2)
        server.streams[0].close()
        await asyncio.sleep(0.2)
        server.say(greeting(session=2))
        await asyncio.sleep(0.3)
        assert server.streams[1].said(Hello) == []
        await asyncio.sleep(1)
        assert server.streams[0].said(Hello) == []
        (hello,) = server.streams[1].said(Hello)
        assert [report.attempt for report in hello.attempts] == ["1.0.1"]

    play(story())


def test_a_server_of_an_older_epoch_is_left_alone() -> None:
    async def story() -> None:
        server = Server()
        start_agent(server)
        await asyncio.sleep(0.1)
        server.say(greeting(epoch=2))
        await asyncio.sleep(0.1)
        server.streams[0].close()
        await asyncio.sleep(0.2)
        server.say(greeting(epoch=1, session=9))
        await asyncio.sleep(0.1)
        assert server.streams[1].sent == [KnowsNewer(node_id="n1", epoch=2)], "the server is told why"
        await asyncio.sleep(4)
        assert len(server.streams) == 3, "one that does not hang up is left"
        server.say(greeting(epoch=2, session=3))
        await asyncio.sleep(0.1)
        assert len(server.streams[2].said(Hello)) == 1

    play(story())


def test_a_server_that_stays_behind_is_called_seldom_and_complained_of_once_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def story() -> None:
        server = Server()
        start_agent(server)
        await asyncio.sleep(0.1)
        server.say(greeting(epoch=2))
        await asyncio.sleep(0.1)
        server.streams[0].close()
        heard = 1
        for _ in range(90 * 10):
            await asyncio.sleep(0.1)
            if len(server.streams) > heard:
                heard = len(server.streams)
                server.say(greeting(epoch=1, session=heard))
                await asyncio.sleep(0.01)
                server.streams[-1].close()
        assert 20 <= heard <= 60
        assert capsys.readouterr().out.count("older than the newest that was obeyed") == 2

    play(story())


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Refused(why="too old"), "too old"),
        (greeting(cluster_id="d"), "the server now belongs to another cluster, d"),
        (
            greeting(protocol=PROTOCOL + 1),
            f"the server speaks protocol {PROTOCOL + 1}, this agent {PROTOCOL}: install one version",
        ),
    ],
)
def test_an_agent_that_has_no_place_there_ends_and_says_why(message: FromServer, why: str) -> None:
    async def story() -> None:
        server = Server()
        working = start_agent(server)
        await asyncio.sleep(0.1)
        server.say(greeting())
        await asyncio.sleep(0.1)
        server.say(message)
        with pytest.raises(AgentRefusedError, match=why):
            await working

    play(story())


def test_a_task_is_launched_reported_and_its_output_read() -> None:
    async def story() -> None:
        server = Server()
        start_agent(server)
        await asyncio.sleep(0.1)
        server.say(greeting(session=4))
        await asyncio.sleep(0.1)
        server.say(Orders(session=4, launches=(launch("1.0.1"),)))
        await asyncio.sleep(0.1)
        server.say(ReadLog(request=1, attempt="1.0.1", stream="stdout", offset=0, max_bytes=100))
        server.say(ReadLog(request=2, attempt="1.0.1", stream="stdout", offset=6, max_bytes=100, wait_s=1))
        await asyncio.sleep(1.5)
        stream = server.streams[0]
        assert stream.said(LogChunk) == [
            LogChunk(request=1, offset=0, data=b"hello\n", at_end=False),
            LogChunk(request=2, offset=6, data=b"", at_end=False),
        ]
        server.say(ReadLog(request=3, attempt="1.0.1", stream="stdout", offset=6, max_bytes=100, wait_s=9))
        server.say(ReadLog(request=4, attempt="9.0.1", stream="stdout", offset=0, max_bytes=100))
        await asyncio.sleep(3)
        assert stream.said(LogChunk)[2:] == [
            LogChunk(request=4, offset=0, data=b"", at_end=True, error="its output is no longer kept"),
            LogChunk(request=3, offset=6, data=b"", at_end=True),
        ]
        phases = [report.phase for message in stream.said(Report) for report in message.attempts]
        assert phases == [Phase.RUNNING, Phase.ENDED]

    play(story())


def test_a_report_says_how_busy_the_devices_of_an_attempt_were() -> None:
    async def story() -> None:
        server = Server()
        start_agent(server, busy=(None, 40), lasts_s=6.0)
        await asyncio.sleep(0.1)
        server.say(greeting(session=4))
        await asyncio.sleep(0.1)
        orders = (
            launch("1.0.1", devices=(1,), gpu_milli=1000),
            launch("2.0.1", devices=(0,), gpu_milli=1000),
        )
        server.say(Orders(session=4, launches=orders))
        await asyncio.sleep(7)
        reports = [report for message in server.streams[0].said(Report) for report in message.attempts]
        busy = {report.attempt: report.exit.gpu_ms for report in reports if report.exit}
        assert busy == {"1.0.1": 2400, "2.0.1": None}

    play(story())


def test_a_heartbeat_is_sent_only_to_a_server_that_has_greeted() -> None:
    async def story() -> None:
        server = Server()
        start_agent(server)
        await asyncio.sleep(7)
        assert server.streams[0].sent == []
        server.say(greeting())
        await asyncio.sleep(7)
        assert [beat.sent for beat in server.streams[0].said(Heartbeat)] == [7.0, 10.0]

    play(story())


def test_an_agent_that_cannot_see_its_devices_any_more_ends_instead_of_falling_silent() -> None:
    async def story() -> None:
        server = Server()
        working = start_agent(server, blind_after_s=4)
        await asyncio.sleep(0.1)
        server.say(greeting())
        with pytest.raises(OSError, match="the driver is gone"):
            await working
        assert len(server.streams[0].said(Heartbeat)) == 1

    play(story())
