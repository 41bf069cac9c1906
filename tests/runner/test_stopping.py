"""A task is ended whole: when told, when its time is up, and what it leaves behind."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.runner.conftest import Machine, is_running, processes_of
from tgpu.domain.lifecycle import Cause

DAEMON = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def stop(machine: Machine, attempt: str, cause: Cause = Cause.CANCELLED, detail: str = "by ann") -> None:
    machine.runner.stop(attempt, cause, detail)


def test_a_stop_is_sigterm_and_the_cause_is_the_stops(machine: Machine) -> None:
    attempt = machine.launch("sleep", "60")
    machine.start_of(attempt)
    stop(machine, attempt, Cause.PREEMPTED, "made way for 43")
    end = machine.end_of(attempt)
    assert (end.cause, end.signal, end.detail) == (Cause.PREEMPTED, signal.SIGTERM, "made way for 43")


def test_a_task_may_use_its_grace_and_its_exit_code_is_kept(machine: Machine) -> None:
    attempt = machine.shell(
        "trap 'echo saving; sleep 0.3; echo saved; exit 9' TERM; echo up; sleep 60 & wait"
    )
    machine.until(lambda: machine.output(attempt) == b"up\n")
    stop(machine, attempt)
    end = machine.end_of(attempt)
    assert (end.cause, end.exit_code, end.signal) == (Cause.CANCELLED, 9, None)
    assert machine.output(attempt) == b"up\nsaving\nsaved\n"


def test_the_child_of_a_shell_that_dies_at_once_keeps_the_whole_grace(machine: Machine) -> None:
    saver = "trap 'sleep 2.5; echo saved; exit 0' TERM; echo up; sleep 60 & wait"
    attempt = machine.launch("bash", "-c", f'bash -c "{saver}"; true', grace_s=20)
    machine.until(lambda: machine.output(attempt) == b"up\n")
    stop(machine, attempt)
    machine.end_of(attempt)
    assert machine.output(attempt) == b"up\nsaved\n"


def test_a_tree_that_ignores_sigterm_and_hides_is_killed_whole(machine: Machine, tmp_path: Path) -> None:
    attempt = machine.launch("python3", "-c", DAEMON, str(tmp_path / "daemon"), grace_s=1)
    daemon = int(machine.file("daemon"))
    stop(machine, attempt)
    end = machine.end_of(attempt)
    assert (end.cause, end.signal) == (Cause.CANCELLED, signal.SIGKILL)
    assert not is_running(daemon)
    assert processes_of(machine, attempt) == []


def test_what_a_task_leaves_behind_ends_with_it(machine: Machine, tmp_path: Path) -> None:
    waits = f"until test -s {tmp_path}/left; do sleep 0.02; done"
    attempt = machine.shell(f"setsid sh -c 'echo $$ > {tmp_path}/left; exec sleep 600' & {waits}; exit 2")
    left = int(machine.file("left"))
    assert machine.end_of(attempt).exit_code == 2
    assert not is_running(left)


def test_a_task_that_forks_without_end_is_ended(machine: Machine) -> None:
    script = """
import os, time
while True:
    if os.fork():
        time.sleep(0.001)
        os._exit(0)
"""
    attempt = machine.launch(
        "sh", "-c", f"python3 -c '{script}' & python3 -c '{script}' & sleep 60", grace_s=0
    )
    machine.start_of(attempt)
    time.sleep(0.2)
    stop(machine, attempt)
    machine.end_of(attempt)
    assert processes_of(machine, attempt) == []


def test_a_task_that_stopped_itself_can_be_ended(machine: Machine) -> None:
    stops_itself = f"echo 1 > {machine.home}/ready; kill -STOP $$; sleep 60"
    for first, expected in (("", signal.SIGTERM), ("trap '' TERM; ", signal.SIGKILL)):
        attempt = machine.shell(first + stops_itself, grace_s=1)
        machine.file("ready")
        (machine.home / "ready").unlink()
        stop(machine, attempt)
        assert machine.end_of(attempt).signal == expected


def test_the_time_limit_ends_a_task(machine: Machine) -> None:
    began = time.monotonic()
    end = machine.end_of(machine.launch("sleep", "60", time_limit_s=1))
    assert (end.cause, end.signal) == (Cause.TIME_LIMIT, signal.SIGTERM)
    assert end.detail == "it ran longer than its limit of 1 s"
    assert time.monotonic() - began >= 1


def test_the_time_limit_kills_after_the_grace(machine: Machine) -> None:
    attempt = machine.shell("trap '' TERM; while :; do sleep 1; done", time_limit_s=2, grace_s=1)
    end = machine.end_of(attempt)
    assert (end.cause, end.signal) == (Cause.TIME_LIMIT, signal.SIGKILL)


STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


def test_a_stop_at_once_is_sigkill(machine: Machine) -> None:
    attempt = machine.shell(STUBBORN, grace_s=600)
    machine.until(lambda: machine.output(attempt) == b"up\n")
    machine.runner.stop(attempt, Cause.CANCELLED, "by ann", at_once=True)
    end = machine.end_of(attempt)
    assert (end.cause, end.signal, end.detail) == (Cause.CANCELLED, signal.SIGKILL, "by ann")


def test_a_stop_at_once_ends_a_grace_that_has_begun(machine: Machine) -> None:
    """What began it stays the cause: an order to stop, or the time limit."""
    for limit_s, cause in ((None, Cause.PREEMPTED), (1, Cause.TIME_LIMIT)):
        attempt = machine.shell(
            "trap 'echo term' TERM; while :; do sleep 0.1; done", grace_s=600, time_limit_s=limit_s
        )
        machine.start_of(attempt)
        if limit_s is None:
            stop(machine, attempt, Cause.PREEMPTED, "made way for 43")
        machine.until(lambda attempt=attempt: b"term" in machine.output(attempt))
        machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
        end = machine.end_of(attempt)
        assert (end.cause, end.signal) == (cause, signal.SIGKILL)


def test_a_stop_at_once_ends_the_grace_of_what_a_dead_shell_left_behind(machine: Machine) -> None:
    attempt = machine.launch("bash", "-c", f'sh -c "{STUBBORN}"; true', grace_s=600)
    machine.until(lambda: machine.output(attempt) == b"up\n")
    stop(machine, attempt)
    machine.until(lambda: len(processes_of(machine, attempt)) < 3)
    machine.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    machine.end_of(attempt)
    assert not processes_of(machine, attempt)


def test_a_stop_of_what_is_over_or_unknown_is_harmless(machine: Machine) -> None:
    attempt = machine.launch("true")
    machine.end_of(attempt)
    stop(machine, attempt)
    stop(machine, "99.0.1")
    assert machine.run("true").exit_code == 0


@pytest.mark.parametrize("wait_s", [0.0, 0.001, 0.004])
def test_a_stop_right_after_the_launch_is_never_lost(machine: Machine, wait_s: float) -> None:
    attempts = []
    for _ in range(70):
        attempts.append(machine.launch("sleep", "60"))
        deadline = time.monotonic() + wait_s
        machine.until(lambda deadline=deadline: time.monotonic() >= deadline)
        stop(machine, attempts[-1])
    for attempt in attempts:
        assert machine.end_of(attempt).cause is Cause.CANCELLED


def test_a_stop_of_one_never_ends_the_next_of_the_same_supervisor(machine: Machine) -> None:
    for _ in range(100):
        first, second = machine.launch("true"), machine.launch("sh", "-c", "sleep 0.002; exit 3")
        stop(machine, first)
        assert machine.end_of(second).exit_code == 3


def test_a_supervisor_told_to_end_by_the_system_ends_its_task_as_a_shutdown_would(machine: Machine) -> None:
    attempt = machine.launch("sleep", "60")
    machine.start_of(attempt)
    os.kill(machine.runner._known.attempts[attempt].claim.pid, signal.SIGTERM)
    assert machine.end_of(attempt).cause is Cause.REBOOTED


def test_a_shell_that_waits_to_be_typed_to_goes_at_once(machine: Machine) -> None:
    attempt = machine.launch("bash", "--norc", "-i", pty=True, grace_s=60)
    machine.until(lambda: b"bash" in machine.output(attempt))  # its prompt
    stop(machine, attempt)
    end = machine.end_of(attempt)
    assert (end.cause, end.signal) == (Cause.CANCELLED, signal.SIGHUP)


HARD_OF_HEARING = """
import signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, lambda *_: signal.signal(signal.SIGHUP, signal.SIG_DFL))
print("up", flush=True)
while True:
    signal.pause()
"""


def test_waiting_shell_that_misses_a_hang_up_gets_another(machine: Machine) -> None:
    """As bash does that is about to wait for keys, and not yet waiting."""
    attempt = machine.launch("python3", "-c", HARD_OF_HEARING, pty=True, grace_s=3600)
    machine.until(lambda: b"up" in machine.output(attempt))
    stop(machine, attempt)
    end = machine.end_of(attempt, within_s=30)
    assert (end.cause, end.signal) == (Cause.CANCELLED, signal.SIGHUP)


BUSY_SHELL = """
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.run(["sh", "-c", sys.argv[1]], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
sys.exit(3)
"""


def test_what_runs_in_a_shell_at_a_terminal_may_save_its_work(machine: Machine) -> None:
    saver = "trap 'sleep 0.5; echo saved; exit 0' TERM; echo up; sleep 60 & wait"
    attempt = machine.launch("python3", "-c", BUSY_SHELL, saver, pty=True, grace_s=60)
    machine.until(lambda: b"up" in machine.output(attempt))
    stop(machine, attempt)
    assert machine.end_of(attempt).exit_code == 3
    assert b"saved" in machine.output(attempt)
