"""Who gives way when a node runs short of memory."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from tgpu.agent import pressure
from tgpu.agent.pressure import GiveWay, reserve_of, who_gives_way
from tgpu.agent.restraint import oom_score
from tgpu.domain.lifecycle import Cause
from tgpu.domain.priority import PriorityClass
from tgpu.runner.burden import Burden

HIGH, DEFAULT, LOW = (
    oom_score(name, burst=False) for name in (PriorityClass.HIGH, PriorityClass.DEFAULT, PriorityClass.LOW)
)
BURST = oom_score(PriorityClass.LOW, burst=True)


def chosen(*burdens: Burden, left: int = 90, stopping: Sequence[str] = ()) -> GiveWay | None:
    return who_gives_way(burdens, left, 100, stopping)


def test_nobody_does_while_there_is_enough() -> None:
    assert chosen(Burden("1.0.1", LOW, 0, 900), Burden("2.0.1", LOW, 0, 900), left=100) is None


def test_task_within_its_request_stays_while_another_is_above_its_own() -> None:
    """Whatever their classes: who reserves nothing cannot push others out."""
    unreserved = oom_score(PriorityClass.REAL_TIME, burst=False, reserves=False)
    leaver = chosen(Burden("1.0.1", unreserved, 0, 900), Burden("2.0.1", LOW, 50, 40))
    assert leaver is not None
    assert leaver.attempt == "1.0.1"
    leaver = chosen(Burden("1.0.1", HIGH, 10, 900), Burden("2.0.1", LOW, 50, 40))
    assert leaver is not None
    assert leaver.attempt == "1.0.1"


def test_kernel_ends_tasks_without_a_request_first() -> None:
    classes = (PriorityClass.REAL_TIME, PriorityClass.BEST_EFFORT)
    least = min(oom_score(name, burst=False, reserves=False) for name in classes)
    most = max(oom_score(name, burst=True) for name in classes)
    assert 0 < most < least < oom_score(PriorityClass.BEST_EFFORT, burst=True, reserves=False) <= 1000


def test_the_lowest_class_does_however_little_it_holds() -> None:
    leaver = chosen(Burden("1.0.1", HIGH, 1000, 900), Burden("2.0.1", LOW, 50, 40))
    words = "90 MiB were left of the 100 MiB that are kept free; it held 40 MiB"
    assert leaver == GiveWay("2.0.1", words, at_once=False)


def test_of_one_class_who_runs_on_the_burst_does() -> None:
    leaver = chosen(Burden("1.0.1", LOW, 0, 900), Burden("2.0.1", BURST, 30, 40))
    assert leaver is not None
    assert leaver.attempt == "2.0.1"


def test_of_equals_who_is_furthest_above_its_request_does() -> None:
    leaver = chosen(
        Burden("1.0.1", DEFAULT, 900, 950), Burden("2.0.1", DEFAULT, 10, 100), Burden("3.0.1", DEFAULT, 0, 60)
    )
    assert leaver is not None
    assert leaver.attempt == "2.0.1"


def test_one_that_is_alone_has_nobody_to_give_way_to() -> None:
    assert chosen(Burden("1.0.1", LOW, 0, 900), left=1) is None


def test_nobody_else_does_while_one_is_on_its_way_out() -> None:
    both = Burden("1.0.1", LOW, 0, 900), Burden("2.0.1", DEFAULT, 0, 900)
    assert chosen(*both, stopping=["1.0.1"]) is None
    leaver = chosen(*both, left=20, stopping=["1.0.1"])
    assert leaver is not None
    assert (leaver.attempt, leaver.at_once) == ("1.0.1", True), "it has no time left"


def test_a_reserve_that_nobody_said_is_a_fiftieth_within_bounds() -> None:
    assert [reserve_of(total) for total in (1000, 50_000, 2_000_000)] == [64, 1000, 2048]


class FakeRunner:
    def __init__(self) -> None:
        self.stops: list[tuple[str, Cause, bool]] = []
        self.running = [Burden("1.0.1", LOW, 0, 50), Burden("2.0.1", DEFAULT, 0, 50)]

    async def burdens(self) -> list[Burden]:
        return self.running

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None:
        assert detail
        self.stops.append((attempt, cause, at_once))


def test_it_is_stopped_once_and_harder_when_it_gets_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "LOOK_EVERY_S", 0.001)
    readings, runner = [500, 90, 90, 10, 10, 500], FakeRunner()
    all_read = threading.Event()

    def left() -> int:
        if len(readings) == 1:
            all_read.set()
            return readings[0]
        return readings.pop(0)

    async def watch() -> None:
        watching = asyncio.create_task(pressure.watch_for_ever([runner], left, 100))
        assert await asyncio.to_thread(all_read.wait, 10)
        watching.cancel()

    asyncio.run(watch())
    assert runner.stops == [
        ("1.0.1", Cause.MEMORY_PRESSURE, False),
        ("1.0.1", Cause.MEMORY_PRESSURE, True),
    ]
