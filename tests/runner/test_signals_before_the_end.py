"""A task chooses the signal by which it is stopped, and may be warned before its time limit."""

import signal
import time

import pytest

from tests.runner.conftest import Machine, processes_of
from tgpu.domain.lifecycle import Cause
from tgpu.domain.signals import Warn

TELLS = """
import os, signal, sys, time
def told(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for name in sys.argv[1:]:
    signal.signal(signal.Signals["SIG" + name], told)
os.write(1, b"up\\n")
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    time.sleep(0.02)
"""


def teller(machine: Machine, *signals: str, **changes: object) -> str:
    attempt = machine.launch("python3", "-c", TELLS, *signals, **changes)
    machine.until(lambda: b"up" in machine.output(attempt))
    return attempt


def lines(machine: Machine, attempt: str) -> list[str]:
    return machine.output(attempt).decode().split()


@pytest.mark.parametrize("cause", [Cause.PREEMPTED, Cause.CANCELLED])
def test_a_stop_is_the_signal_that_the_task_has_chosen_then_a_grace_then_sigkill(
    machine: Machine, cause: Cause
) -> None:
    attempt = teller(machine, "USR1", "TERM", stop_signal="USR1", grace_s=1)
    began = time.monotonic()
    machine.runner.stop(attempt, cause, "by ann")
    end = machine.end_of(attempt)
    assert (end.cause, end.signal) == (cause, signal.SIGKILL)
    assert time.monotonic() - began >= 1
    assert lines(machine, attempt) == ["up", "SIGUSR1"]


def test_the_time_limit_comes_with_the_same_signal(machine: Machine) -> None:
    end = machine.end_of(machine.launch("sleep", "60", time_limit_s=1, stop_signal="INT"))
    assert (end.cause, end.signal) == (Cause.TIME_LIMIT, signal.SIGINT)


def test_the_whole_tree_gets_it_and_who_saves_behind_a_shell_keeps_its_grace(machine: Machine) -> None:
    saver = "trap 'sleep 0.5; echo saved; exit 0' USR2; echo up; while :; do sleep 0.05; done"
    attempt = machine.launch("bash", "-c", f'bash -c "{saver}"; true', stop_signal="USR2", grace_s=20)
    machine.until(lambda: machine.output(attempt) == b"up\n")
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    assert machine.end_of(attempt).signal == signal.SIGUSR2
    assert machine.output(attempt) == b"up\nsaved\n"


def test_a_warning_comes_once_and_before_the_end_which_comes_as_ever(machine: Machine) -> None:
    attempt = teller(machine, "USR1", "TERM", time_limit_s=5, warn=Warn("USR1", 2), grace_s=1)
    machine.until(lambda: "SIGUSR1" in lines(machine, attempt))
    assert "SIGTERM" not in lines(machine, attempt)
    end = machine.end_of(attempt)
    assert (end.cause, end.signal) == (Cause.TIME_LIMIT, signal.SIGKILL)
    assert lines(machine, attempt) == ["up", "SIGUSR1", "SIGTERM"]


def test_a_warning_reaches_who_heeds_it_and_kills_nobody(machine: Machine) -> None:
    """A shell that does nothing about it would die of it, and its program with it."""
    script = "trap 'echo saved' USR1; echo up; while :; do sleep 0.05; done"
    attempt = machine.launch(
        "bash", "-c", f'sleep 60 & bash -c "{script}"; true', time_limit_s=5, warn=Warn("USR1", 2), grace_s=0
    )
    machine.until(lambda: b"saved" in machine.output(attempt))
    assert len(processes_of(machine, attempt)) >= 3
    assert machine.end_of(attempt).cause is Cause.TIME_LIMIT


@pytest.mark.parametrize(
    "waits", ["signal.sigwait([10])", "[time.sleep(0.02) for _ in range(3000) if not signal.sigpending()]"]
)
def test_a_warning_reaches_who_holds_the_signal_back_to_wait_for_it(machine: Machine, waits: str) -> None:
    script = f"import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, [10]); {waits}; print('there')"
    attempt = machine.launch("python3", "-c", script, time_limit_s=60, warn=Warn("USR1", 57))
    assert machine.end_of(attempt).exit_code == 0
    assert lines(machine, attempt) == ["there"]


def test_a_warning_may_be_for_the_main_process_alone(machine: Machine) -> None:
    inner = "trap 'echo inner' USR1; while :; do sleep 0.05; done"
    attempt = machine.launch(
        "bash",
        "-c",
        f"trap 'echo main' USR1; (bash -c \"{inner}\") & echo up; while :; do wait; done",
        time_limit_s=5,
        warn=Warn("USR1", 2, main=True),
        grace_s=0,
    )
    assert machine.end_of(attempt).cause is Cause.TIME_LIMIT
    assert lines(machine, attempt) == ["up", "main"]


def test_nobody_is_warned_who_is_over_or_told_to_go_before(machine: Machine) -> None:
    attempt = teller(machine, "USR1", "TERM", time_limit_s=5, warn=Warn("USR1", 2), grace_s=4)
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    assert machine.end_of(attempt).cause is Cause.CANCELLED
    assert lines(machine, attempt) == ["up", "SIGTERM"]


def test_a_warning_comes_though_the_agent_is_away(machine: Machine) -> None:
    attempt = teller(machine, "USR1", time_limit_s=5, warn=Warn("USR1", 2), grace_s=0)
    machine.close()
    deadline = time.monotonic() + 30
    log = machine.home / "logs" / attempt
    while not any(b"SIGUSR1" in path.read_bytes() for path in log.rglob("*") if path.is_file()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    machine.open()
    assert machine.end_of(attempt).cause is Cause.TIME_LIMIT
