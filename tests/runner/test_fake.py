"""The runner on paper keeps the port's promises."""

import asyncio
from collections.abc import Callable, Coroutine

from tests.runner.conftest import PATH
from tgpu.domain.lifecycle import Cause
from tgpu.runner.fake import Behaviour, FakeMachine, FakeRunner, Run
from tgpu.runner.port import (
    HAD_BEFORE,
    AttemptEnded,
    AttemptStarted,
    LaunchSpec,
    LogPart,
    Runner,
    RunnerEvent,
)


def spec(attempt: str = "1.0.1", *, time_limit_s: int | None = None, grace_s: int = 0) -> LaunchSpec:
    return LaunchSpec(attempt, ("train",), {"PATH": PATH}, "/", "ann", time_limit_s, grace_s, 1 << 20)


def played(
    behaviour: Behaviour, story: Callable[[FakeMachine, list[RunnerEvent]], Coroutine[None, None, None]]
) -> tuple[FakeMachine, list[RunnerEvent]]:
    events: list[RunnerEvent] = []

    async def play() -> FakeMachine:
        loop = asyncio.get_running_loop()
        machine = FakeMachine(lambda _: behaviour, lambda: int(loop.time() * 1000))
        await story(machine, events)
        return machine

    return asyncio.run(play()), events


def test_a_task_starts_ends_and_runs_once() -> None:
    async def story(machine: FakeMachine, events: list[RunnerEvent]) -> None:
        runner: Runner = FakeRunner(machine)
        assert await runner.open(events.append) == []
        for _ in range(3):
            runner.launch(spec())
        await asyncio.sleep(0.05)
        runner.forget("1.0.1")
        runner.launch(spec())
        await asyncio.sleep(0.02)
        assert runner.read_log("1.0.1", "stdout", -2, 10) == LogPart(1, b"i!")
        assert runner.read_log("2.0.1", "stdout", 0, 10) is None

    machine, events = played(Behaviour(0.01, exit_code=3, output=b"hi!"), story)
    started, ended, again = events
    assert isinstance(started, AttemptStarted)
    assert isinstance(ended, AttemptEnded)
    assert (ended.exit.cause, ended.exit.exit_code) == (Cause.EXITED, 3)
    assert again == AttemptEnded("1.0.1", HAD_BEFORE)
    assert [run.attempt for run in machine.history] == ["1.0.1"]


def test_a_crash_of_the_agent_leaves_tasks_running_and_a_reboot_does_not() -> None:
    async def story(machine: FakeMachine, events: list[RunnerEvent]) -> None:
        first = FakeRunner(machine)
        await first.open(events.append)
        first.launch(spec("1.0.1"))
        await asyncio.sleep(0.01)
        second = FakeRunner(machine)
        (found,) = await second.open(events.append)
        assert found == AttemptStarted("1.0.1", machine.history[0].start_ms)
        assert machine.live("1.0.1") == machine.history
        machine.reboot()
        (found,) = await FakeRunner(machine).open(events.append)
        assert isinstance(found, AttemptEnded)
        assert found.exit.cause is Cause.REBOOTED

    machine, _ = played(Behaviour(60), story)
    (run,) = machine.history
    assert run == Run("1.0.1", run.start_ms, run.end_ms)
    assert run.end_ms is not None


def test_stops_limits_and_refusals() -> None:
    async def story(machine: FakeMachine, events: list[RunnerEvent]) -> None:
        runner = FakeRunner(machine)
        await runner.open(events.append)
        runner.launch(spec("1.0.1"))
        runner.launch(spec("2.0.1", time_limit_s=0))
        await asyncio.sleep(0.01)
        runner.stop("1.0.1", Cause.PREEMPTED, "made way")
        await asyncio.sleep(0.01)

    _, events = played(Behaviour(60, leaves_after_s=None), story)
    ends = {event.attempt: event.exit for event in events if isinstance(event, AttemptEnded)}
    assert (ends["1.0.1"].cause, ends["1.0.1"].signal) == (Cause.PREEMPTED, 9)
    assert ends["2.0.1"].cause is Cause.TIME_LIMIT

    async def refused(machine: FakeMachine, events: list[RunnerEvent]) -> None:
        await FakeRunner(machine).open(events.append)
        machine.start(spec())
        await asyncio.sleep(0.01)

    machine, (event,) = played(Behaviour(1, refusal="no such program"), refused)
    assert isinstance(event, AttemptEnded)
    assert (event.exit.cause, event.exit.detail) == (Cause.COULD_NOT_START, "no such program")
    assert machine.history == []
