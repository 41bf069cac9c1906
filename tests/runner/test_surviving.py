"""Agents, spawners, supervisors and machines die; what runs is found again and runs at most once."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.runner.conftest import Machine, is_running, processes_of
from tgpu.domain.job import Exit
from tgpu.domain.lifecycle import Cause
from tgpu.runner import process, upkeep, warm
from tgpu.runner.port import HAD_BEFORE, AttemptEnded, AttemptStarted

ROOT = Path(__file__).parents[2]


class OtherAgent:
    """Another process's runner on the same records."""

    def __init__(self, home: Path, **orders: str) -> None:
        words = [word for name, script in orders.items() for word in (name.replace("_", "."), script)]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.runner.agent_process",
                str(home),
                *[word.removeprefix("a") for word in words],
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.spawner = int(self.wait_for(r"spawner (\d+)"))

    def wait_for(self, pattern: str) -> str:
        for line in self.process.stdout:
            if match := re.search(pattern, line):
                return match[1] if match.groups() else match[0]
        raise AssertionError(f"never said {pattern}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    return tmp_path


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.mark.parametrize("spawner_too", [False, True])
def test_a_new_agent_adopts_what_runs_and_hears_its_true_end(
    empty_machine: Machine, home: Path, *, spawner_too: bool
) -> None:
    waits = f"until test -e {home}/gate; do sleep 0.02; done"
    other = OtherAgent(home, a1_0_1=f"echo x >> {home}/ran; {waits}; exit 42")
    other.wait_for("AttemptStarted")
    other.kill()
    if spawner_too:
        with contextlib.suppress(ProcessLookupError):  # it ends by itself, too
            os.kill(other.spawner, signal.SIGKILL)
    (event,) = empty_machine.open()
    assert isinstance(event, AttemptStarted)
    assert event.attempt == "1.0.1"
    (home / "gate").touch()
    end = empty_machine.end_of("1.0.1")
    assert (end.cause, end.exit_code) == (Cause.EXITED, 42)
    assert lines(home / "ran") == 1


def test_what_ended_while_there_was_no_agent_is_found(empty_machine: Machine, home: Path) -> None:
    other = OtherAgent(home, a1_0_1=f"until test -e {home}/gate; do sleep 0.02; done; exit 5")
    other.wait_for("AttemptStarted")
    other.kill()
    journals = {path: path.read_bytes() for path in home.rglob("exits.*")}
    (home / "gate").touch()
    empty_machine.until(lambda: {path: path.read_bytes() for path in home.rglob("exits.*")} != journals)
    (event,) = empty_machine.open()
    assert isinstance(event, AttemptEnded)
    assert (event.exit.cause, event.exit.exit_code) == (Cause.EXITED, 5)


def test_a_time_limit_holds_while_there_is_no_agent(machine: Machine) -> None:
    attempt = machine.launch("sleep", "60", time_limit_s=1)
    machine.start_of(attempt)
    machine.close()
    time.sleep(1.3)
    machine.events.clear()
    machine.open()
    assert machine.end_of(attempt).cause is Cause.TIME_LIMIT


def test_what_was_adopted_can_be_stopped(machine: Machine) -> None:
    attempt = machine.launch("sleep", "60")
    machine.start_of(attempt)
    machine.close()
    machine.open()
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    assert machine.end_of(attempt).cause is Cause.CANCELLED


def test_an_attempt_runs_once_however_often_it_is_launched(machine: Machine, home: Path) -> None:
    spec = machine.spec("sh", "-c", f"echo x >> {home}/ran")

    def launch_again() -> None:
        machine.runner.launch(spec)
        machine.until(lambda: lines(home / "ran"))

    launch_again()
    machine.runner.launch(spec)
    machine.end_of(spec.attempt)
    launch_again()
    machine.close()
    machine.open()
    launch_again()
    machine.runner.forget(spec.attempt)
    launch_again()
    machine.close()
    assert machine.open() == []
    launch_again()
    machine.runner._known.forgotten.clear()  # even an agent that has lost its memory
    launch_again()
    assert machine.run("true").exit_code == 0
    assert lines(home / "ran") == 1


def test_a_launch_of_what_was_forgotten_is_answered_after_a_restart_too(machine: Machine) -> None:
    spec = machine.spec("true")
    machine.runner.launch(spec)
    machine.end_of(spec.attempt)
    machine.runner.forget(spec.attempt)
    for _ in range(2):
        machine.events.clear()
        machine.runner.launch(spec)
        assert machine.events == [AttemptEnded(spec.attempt, HAD_BEFORE)]
        machine.close()
        machine.open()


def test_a_forgotten_attempt_may_run_again_only_when_no_order_can_be_under_way(
    machine: Machine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "REFUSE_AGAIN_S", 0.0)
    spec = machine.spec("sh", "-c", f"echo x >> {home}/ran")
    machine.runner.launch(spec)
    machine.end_of(spec.attempt)
    machine.runner.forget(spec.attempt)
    claim = home / "records" / "claims" / spec.attempt
    assert claim.exists()
    machine.until(lambda: not claim.exists())


def test_a_killed_spawner_is_replaced_and_no_order_is_lost(machine: Machine, home: Path) -> None:
    attempts = [machine.shell(f"echo x >> {home}/ran") for _ in range(20)]
    os.kill(machine.runner._spawner.process.pid, signal.SIGKILL)
    attempts += [machine.shell(f"echo x >> {home}/ran") for _ in range(20)]
    for attempt in attempts:
        assert machine.end_of(attempt).exit_code == 0
    assert lines(home / "ran") == 40


def test_a_spawner_that_cannot_start_is_tried_again_less_and_less_and_its_words_are_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    births: list[float] = []
    start = warm.Spawner.start

    async def counted(*given: Any) -> warm.Spawner:
        births.append(time.monotonic())
        return await start(*given)

    monkeypatch.setattr(warm.Spawner, "start", counted)
    code = warm._CODE
    monkeypatch.setattr(warm, "_CODE", "raise SystemExit('no room for {{root!r}} {pipe} {lock}')")
    with structlog.testing.capture_logs() as told:
        os.kill(machine.runner._spawner.process.pid, signal.SIGKILL)
        attempt = machine.shell("exit 7")
        machine.until(lambda: len(births) == 4)
        monkeypatch.setattr(warm, "_CODE", code)
        assert machine.end_of(attempt).exit_code == 7, "once it can start, no order is lost"
    assert births[3] - births[0] >= 0.1 + 0.2 + 0.4
    deaths = [line for line in told if line["event"] == "spawner-died"]
    assert [death["again_in_s"] for death in deaths] == [0.0, 0.1, 0.2, 0.4, 0.8]
    assert deaths[0]["said"] == ""
    assert all(death["said"].startswith("no room for") for death in deaths[1:])
    assert [death["status"] for death in deaths] == [-signal.SIGKILL, 1, 1, 1, 1]


def test_the_task_of_a_killed_supervisor_is_ended_and_recorded(machine: Machine, home: Path) -> None:
    attempt = machine.shell(f"setsid sleep 600 & echo $! > {home}/child; sleep 600")
    child = int(machine.file("child"))
    machine.start_of(attempt)
    os.kill(machine.runner._known.attempts[attempt].claim.pid, signal.SIGKILL)
    end = machine.end_of(attempt)
    assert (end.cause, end.detail) == (Cause.SUPERVISOR_LOST, "the process that watched over it was killed")
    assert end.started_ms is not None
    assert not is_running(child)
    assert processes_of(machine, attempt) == []
    machine.close()
    assert machine.open() == [AttemptEnded(attempt, end)], "it was recorded before it was told"


def test_a_supervisor_killed_while_there_was_no_agent_is_found(machine: Machine) -> None:
    attempt = machine.launch("sleep", "600")
    machine.start_of(attempt)
    supervisor = machine.runner._known.attempts[attempt].claim.pid
    machine.close()
    os.kill(supervisor, signal.SIGKILL)
    machine.until(lambda: not is_running(supervisor))
    (event,) = machine.open()
    assert event.exit.cause is Cause.SUPERVISOR_LOST
    assert processes_of(machine, attempt) == []


def test_what_ran_before_a_reboot_is_over(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = machine.launch("sleep", "600")
    began = machine.start_of(attempt)
    old = machine.runner
    machine.close()
    monkeypatch.setattr(process, "_boot_id", lambda: "another-boot")
    (event,) = machine.open()
    assert event == AttemptEnded(
        attempt,
        Exit(
            Cause.REBOOTED,
            detail="the machine restarted",
            started_ms=began.started_ms,
            ended_ms=event.exit.ended_ms,
        ),
    )
    os.kill(old._known.attempts[attempt].claim.pid, signal.SIGTERM)


def test_a_torn_line_hides_no_other(machine: Machine, home: Path) -> None:
    first = machine.launch("false")
    machine.end_of(first)
    with (home / "records" / "exits.0").open("ab") as journal:
        journal.write(b'\n{"attempt":"9.0.1","exit":{"cause":"exi')
    second = machine.shell("exit 2")
    machine.end_of(second)
    machine.close()
    codes = {event.attempt: event.exit.exit_code for event in machine.open()}
    assert codes == {first: 1, second: 2}


def test_full_journals_go_when_everything_in_them_is_forgotten(
    machine: Machine, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tgpu.runner.journal.FULL_BYTES", 1000)
    running = machine.launch("sleep", "600")
    machine.start_of(running)
    for _ in range(10):
        attempt = machine.launch("true")
        machine.end_of(attempt)
        machine.runner.forget(attempt)
    machine.until((home / "records" / "exits.1").exists)
    assert (home / "records" / "exits.0").exists(), "the running task's end will stand in it"
    assert machine.run("true").exit_code == 0
    machine.runner.stop(running, Cause.CANCELLED, "")
    assert machine.end_of(running).cause is Cause.CANCELLED
    machine.runner.forget(running)
    machine.until(lambda: not (home / "records" / "exits.0").exists())
    machine.close()
    assert [event.exit.exit_code for event in machine.open()] == [0]


def test_an_end_of_which_the_agent_was_not_told_is_found_by_itself(machine: Machine) -> None:
    machine.loop.remove_reader(machine.runner._socket.fileno())
    short, long = machine.launch("true"), machine.shell("sleep 0.1; exit 3")
    assert machine.end_of(short).exit_code == 0
    assert machine.end_of(long).exit_code == 3


def test_a_home_with_a_very_long_path_works(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    machine = Machine(deep)
    machine.open()
    assert machine.run("true").exit_code == 0
    machine.close()
    machine.loop.close()
