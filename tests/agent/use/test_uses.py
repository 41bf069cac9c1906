"""What is looked at, how often, what is kept of it across restarts, and what is told at the end."""

import asyncio
import math
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.agent.test_gpu_watch import launch
from tgpu.agent.use.gpu_meter import DeviceShares
from tgpu.agent.use.uses import CONTAINER_LOOKS_S, LEAST_AT_ONCE, TICK_S, Uses
from tgpu.domain.container import Container
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.domain.use import Use
from tgpu.protocol.use import UseFile, doubles, unpacked
from tgpu.runner.fake import Behaviour, FakeMachine, FakeRunner
from tgpu.runner.look import Look
from tgpu.runner.port import AttemptEnded, AttemptStarted

MIB = 1 << 20
ONE = "1.0.1"
START = 1_000_000


class ScriptedRunner(FakeRunner):
    """Every attempt looks as it is told to."""

    def __init__(self) -> None:
        super().__init__(FakeMachine(lambda _: Behaviour(1.0), lambda: 0))
        self.looks: dict[str, Look] = {}
        self.asked: list[list[str]] = []

    async def look(self, attempts: Collection[str]) -> Mapping[str, Look]:
        self.asked.append(list(attempts))
        return {attempt: self.looks[attempt] for attempt in attempts if attempt in self.looks}


class Node:
    """An agent's uses with a clock that a test sets."""

    def __init__(self, logs: Path, shares: Mapping[int, DeviceShares] | None = None) -> None:
        self.logs, self.shares = logs, shares or {}
        self.runner = ScriptedRunner()
        self.now = 0.0
        self.begin()

    def begin(self) -> None:
        """As an agent that is started again: nothing is known but what is on disk."""
        self.uses = Uses(5.0, lambda: self.shares, lambda: START + round(1000 * self.now))
        self.uses.open(self.logs, self.runner)

    def start(self, attempt: str = ONE) -> None:
        if not self.uses.meter.devices(attempt) and attempt not in self.uses._launched:
            self.uses.launched(launch(attempt), self.now)
        self.uses.started(AttemptStarted(attempt, START + round(1000 * self.now)), self.now)

    def go_to(self, now: float, looks: Look | None = None, attempt: str = ONE) -> None:
        """Everything that is due until then, tick after tick."""
        if looks is not None:
            self.runner.looks[attempt] = looks

        async def tick() -> None:
            while self.now < now:
                self.now = min(now, self.now + TICK_S)
                await self.uses._look(self.now)
                await self.uses._keep()

        asyncio.run(tick())

    def end(self, how: Exit, attempt: str = ONE) -> Exit:
        return self.uses.ended(AttemptEnded(attempt, how)).exit

    def course(self, attempt: str = ONE) -> UseFile:
        file = unpacked(self.uses.read(attempt))
        assert file is not None
        return file


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def column(file: UseFile, name: str) -> list[float]:
    return list(doubles(file.columns[name]))


def test_counters_become_rates_and_the_end_tells_the_sum(node: Node) -> None:
    node.start()
    node.go_to(1, Look(cpu_us=500_000, memory_bytes=10 * MIB, disk_read_bytes=100, periods=10, throttled=5))
    node.go_to(
        6, Look(cpu_us=10_500_000, memory_bytes=30 * MIB, disk_read_bytes=100, periods=60, throttled=30)
    )
    node.go_to(
        11, Look(cpu_us=10_500_000, memory_bytes=20 * MIB, disk_read_bytes=400, periods=60, throttled=30)
    )
    course = node.course()
    assert column(course, "seconds") == [6.0, 5.0]
    assert column(course, "cpu_milli") == [pytest.approx(1750.0), 0.0]
    assert column(course, "cpu_milli_peak") == [2000.0, 0.0]
    assert column(course, "disk_read_bytes") == [100.0, 300.0]
    assert course.latest == {"seconds": 5.0, "cpu_milli": 0.0, "memory_mib": 20.0, "disk_read_bytes": 300.0}
    end = node.end(Exit(Cause.EXITED, exit_code=0, started_ms=START, ended_ms=START + 12_000, cpu_ms=10_800))
    assert end.use == Use(
        measured_s=11,
        cpu_mean_milli=900,
        cpu_peak_milli=2000,
        throttled_percent=50,
        memory_peak_mib=30,
        disk_read_bytes=400,
    )
    assert (end.cpu_ms, end.peak_memory_mib) == (10_800, 30)


def test_of_a_container_the_last_look_says_what_nobody_recorded(node: Node) -> None:
    node.uses.launched(in_container(ONE), 0.0)
    node.start()
    node.go_to(3, Look(cpu_us=2_500_000, memory_bytes=64 * MIB, net_sent_bytes=9))
    assert [len(asked) for asked in node.runner.asked] == len(CONTAINER_LOOKS_S) * [1]
    end = node.end(Exit(Cause.EXITED, exit_code=0, started_ms=START, ended_ms=START + 5000))
    assert (end.cpu_ms, end.peak_memory_mib) == (2500, 64)
    assert end.use is not None
    assert (end.use.cpu_mean_milli, end.use.net_sent_bytes) == (500, 9)


def test_what_a_container_did_before_its_start_was_told_is_no_rate(node: Node) -> None:
    node.uses.launched(in_container(ONE), 0.0)
    node.start()
    node.go_to(0.25, Look(cpu_us=600_000, memory_bytes=MIB))
    assert node.course().latest == {"seconds": 0.25, "memory_mib": 1.0}
    node.go_to(8, Look(cpu_us=700_000, memory_bytes=MIB))
    end = node.end(Exit(Cause.EXITED, exit_code=0, started_ms=START, ended_ms=START + 10_000))
    assert end.use is not None
    assert (end.cpu_ms, end.use.cpu_mean_milli) == (700, 70), "but it counts"
    assert (end.use.cpu_peak_milli or 0) <= 400, "100 ms within the next quarter of a second"


def in_container(attempt: str) -> object:
    made = launch(attempt)
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    return type(made)(**fields | {"container": Container("tools:1")})


def test_what_was_recorded_exactly_is_not_made_worse(node: Node) -> None:
    node.start()
    node.go_to(2, Look(cpu_us=900_000, memory_bytes=MIB, disk_written_bytes=10))
    recorded = Use(disk_read_bytes=0, disk_written_bytes=77)
    end = node.end(Exit(Cause.EXITED, cpu_ms=1234, peak_memory_mib=55, use=recorded))
    assert (end.cpu_ms, end.peak_memory_mib) == (1234, 55)
    assert end.use is not None
    assert (end.use.disk_read_bytes, end.use.disk_written_bytes) == (0, 77)


def test_a_task_that_is_over_before_anybody_looked_costs_nothing(node: Node) -> None:
    node.start()
    node.go_to(0.5)
    end = Exit(Cause.EXITED, exit_code=0)
    assert node.end(end) is end
    node.go_to(30)
    assert node.runner.asked == []
    assert node.uses.read(ONE) == b""


def test_those_that_began_together_are_looked_at_in_turn(node: Node) -> None:
    names = [f"{number}.0.1" for number in range(1, 201)]
    for name in names:
        node.start(name)
        node.runner.looks[name] = Look(cpu_us=0)
    node.go_to(21)
    assert max(map(len, node.runner.asked)) <= LEAST_AT_ONCE
    counts = [sum(name in asked for asked in node.runner.asked) for name in names]
    assert (min(counts), max(counts)) in {(3, 4), (4, 4), (4, 5)}


def test_an_agent_that_is_started_again_goes_on_with_the_course(node: Node) -> None:
    node.start()
    node.go_to(6, Look(cpu_us=6_000_000, memory_bytes=50 * MIB))
    node.begin()  # as after a crash: since then nothing was written
    node.now = 106.0
    (event,) = node.uses.adopted([AttemptStarted(ONE, START)], node.now)
    assert event == AttemptStarted(ONE, START)
    node.go_to(107, Look(cpu_us=56_000_000, memory_bytes=20 * MIB))
    course = node.course()
    assert sum(column(course, "seconds")) == pytest.approx(107, abs=1)
    assert max(column(course, "memory_mib_peak")) == 50.0
    busy = zip(column(course, "seconds"), column(course, "cpu_milli"), strict=True)
    assert sum(seconds * milli for seconds, milli in busy) == pytest.approx(56_000)
    assert course.cpu_us == 56_000_000


def test_what_ended_while_no_agent_was_there_is_told_by_the_file(node: Node) -> None:
    node.uses.launched(launch(ONE, 0, 1), 0.0)
    node.uses.meter.seen({0: 50, 1: 0}, 0.0)
    node.start()
    node.go_to(4, Look(cpu_us=4_000_000, memory_bytes=50 * MIB))
    node.uses.meter.seen({0: 50, 1: 0}, 5.0)
    node.go_to(40)
    kept = unpacked((node.logs / ONE / "use").read_bytes())
    assert kept is not None
    node.begin()
    end = Exit(Cause.EXITED, exit_code=0, started_ms=START, ended_ms=START + 60_000, cpu_ms=5000)
    ended, other = node.uses.adopted([AttemptEnded(ONE, end), AttemptEnded("2.0.1", end)], 100.0)
    assert other.exit is end
    assert (ended.exit.gpu_ms, ended.exit.use.gpus_used) == (kept.gpu_busy_ms, 1)
    assert ended.exit.gpu_ms is not None
    node.go_to(120)
    assert not node.uses.meter.has_any


def test_an_attempt_with_gpus_that_outlived_its_agent_is_metered_on(node: Node) -> None:
    node.uses.launched(launch(ONE, 0), 0.0)
    node.uses.meter.seen({0: 100}, 0.0)
    node.start()
    node.go_to(2, Look(cpu_us=0))
    node.begin()
    node.uses.adopted([AttemptStarted(ONE, START)], 10.0)
    assert node.uses.meter.devices(ONE) == (0,)
    node.uses.meter.seen({0: 100}, 12.0)
    assert node.uses.meter.ended(ONE, 12.0) == 1000 + 2000


def test_gpus_are_told_by_the_attempts_own_processes_where_the_driver_does(tmp_path: Path) -> None:
    shares = {0: DeviceShares({ONE: 30}, {ONE: 4000}), 1: DeviceShares({"2.0.1": 90}, {"2.0.1": 70})}
    node = Node(tmp_path, shares)
    node.uses.launched(launch(ONE, 0, 1), 0.0)
    node.start()
    node.go_to(11, Look(cpu_us=0))
    course = node.course()
    assert set(column(course, "gpu_percent")) == {30.0}
    assert set(column(course, "gpu_memory_mib")) == {4000.0}
    end = node.end(Exit(Cause.EXITED, exit_code=0))
    assert end.use is not None
    assert (end.use.gpus_used, end.use.gpu_memory_peak_mib) == (1, 4000)


def test_a_full_disk_costs_only_what_is_kept(node: Node, tmp_path: Path) -> None:
    (tmp_path / ONE).write_text("not a folder")
    node.start()
    node.go_to(6, Look(cpu_us=1_000_000))
    assert node.course().cpu_us == 1_000_000


def test_clocks_that_are_set_back_make_no_hole(node: Node) -> None:
    node.start()
    node.go_to(6, Look(cpu_us=6_000_000))
    node.uses._now_ms = lambda: START + round(1000 * node.now) - 3_600_000
    node.go_to(17, Look(cpu_us=7_000_000))
    course = node.course()
    assert all(seconds > 0 and not math.isnan(seconds) for seconds in column(course, "seconds"))
    assert course.cpu_us == 7_000_000
