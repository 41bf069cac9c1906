"""A task that lives at most once runs while a leader is heard: else it is frozen, and killed if replaced."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine, is_running, processes_of
from tgpu.config.settings import LEAST_SILENT_S
from tgpu.control.losses import LEASE_PART
from tgpu.domain.lifecycle import Cause
from tgpu.runner.lease import POLL_S

LEASE = 1.0
COUNTS = """
import os, sys, time
for child in range(2):
    if os.fork() == 0:
        os.setsid()
        if child:
            os.fork()
        break
path = os.path.join(sys.argv[1], f"{os.getpid()}.beats")
while True:
    with open(path, "a") as file:
        file.write(".")
    time.sleep(0.02)
"""


def boottime_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@pytest.fixture(params=[False, True], ids=["signals", "cgroup"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path, cgroups=request.param)
    made.open()
    yield made
    made.close()
    made.loop.close()


def beats(folder: Path) -> int:
    """Of four processes: the task, and who has left its session and its parent."""
    return sum(path.stat().st_size for path in folder.glob("*.beats"))


def counting(machine: Machine, tmp_path: Path, **changes: object) -> str:
    """Starts the four processes."""
    machine.runner.heard(boottime_ns(), LEASE)
    attempt = machine.launch("python3", "-c", COUNTS, str(tmp_path), once=True, **changes)
    renew_until(machine, lambda: len(list(tmp_path.glob("*.beats"))) == 4)
    return attempt


def renew_until(machine: Machine, happened: Callable[[], bool]) -> None:
    """Renews the lease until then, however slow this machine is."""

    def renewed() -> bool:
        machine.runner.heard(boottime_ns(), LEASE)
        return happened()

    machine.until(renewed)


def stands_still(folder: Path, for_s: float = 0.4) -> bool:
    before = beats(folder)
    time.sleep(for_s)
    return beats(folder) == before


def test_it_runs_while_the_leader_is_heard(machine: Machine, tmp_path: Path) -> None:
    attempt = counting(machine, tmp_path)
    until = time.monotonic() + 2 * LEASE
    while (renewed := time.monotonic()) < until:
        machine.runner.heard(boottime_ns(), LEASE)
        still = stands_still(tmp_path, 0.3)
        if time.monotonic() - renewed > LEASE - POLL_S:  # this process was too slow to renew the lease
            until = time.monotonic() + 2 * LEASE
        else:
            assert not still
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    machine.end_of(attempt)


def test_it_is_frozen_whole_when_nobody_is_heard_and_thawed_when_somebody_is(
    machine: Machine, tmp_path: Path
) -> None:
    attempt = counting(machine, tmp_path)
    machine.until(lambda: stands_still(tmp_path))
    assert len(processes_of(machine, attempt)) == 4
    assert stands_still(tmp_path, 1.0)
    machine.runner.heard(boottime_ns(), LEASE)
    machine.until(lambda: not stands_still(tmp_path, 0.1))
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    assert machine.end_of(attempt).signal == signal.SIGTERM


def test_it_is_frozen_without_an_agent_and_found_again_by_the_next_one(
    machine: Machine, tmp_path: Path
) -> None:
    attempt = counting(machine, tmp_path)
    machine.close()
    assert wait_for(lambda: stands_still(tmp_path))
    machine.open()
    assert stands_still(tmp_path)  # that an agent is there says nothing of a leader
    machine.runner.heard(boottime_ns(), LEASE)
    machine.until(lambda: not stands_still(tmp_path, 0.1))
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    machine.end_of(attempt)


def test_one_that_was_replaced_is_killed_without_another_step(machine: Machine, tmp_path: Path) -> None:
    attempt = counting(machine, tmp_path, grace_s=60)
    machine.until(lambda: stands_still(tmp_path))
    before = beats(tmp_path)
    machine.runner.stop(attempt, Cause.SUPERSEDED, "another one runs")
    machine.runner.heard(boottime_ns(), LEASE)  # the orders come first, as on the agent's stream
    end = machine.end_of(attempt)
    assert (end.cause, end.signal, beats(tmp_path)) == (Cause.SUPERSEDED, signal.SIGKILL, before)
    assert processes_of(machine, attempt) == []


def test_one_that_is_cancelled_while_it_is_frozen_may_still_use_its_grace_when_it_is_thawed(
    machine: Machine, tmp_path: Path
) -> None:
    machine.runner.heard(boottime_ns(), LEASE)
    beat = f"printf . >> {tmp_path}/shell.beats"
    saves = f"trap 'echo saved; exit 3' TERM; while :; do {beat}; sleep 0.1; done"
    attempt = machine.shell(saves, once=True, grace_s=30)
    renew_until(machine, (tmp_path / "shell.beats").exists)
    machine.until(lambda: stands_still(tmp_path, 2 * POLL_S))
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    time.sleep(2 * POLL_S)
    assert machine.output(attempt) == b""
    machine.runner.heard(boottime_ns(), LEASE)
    assert machine.end_of(attempt).exit_code == 3
    assert machine.output(attempt) == b"saved\n"


def test_nothing_starts_on_the_word_of_a_leader_of_long_ago(machine: Machine, tmp_path: Path) -> None:
    machine.runner.heard(boottime_ns() - int(2 * LEASE * 1e9), LEASE)
    late = machine.shell(f"touch {tmp_path}/late", once=True)
    dropped = machine.shell(f"touch {tmp_path}/dropped", once=True)
    machine.until(lambda: len(list((tmp_path / "records" / "claims").iterdir())) == 2)
    machine.runner.stop(dropped, Cause.SUPERSEDED, "another one runs")
    assert machine.end_of(dropped).cause is Cause.SUPERSEDED
    assert not (tmp_path / "late").exists()
    machine.runner.heard(boottime_ns(), LEASE)
    assert machine.end_of(late).exit_code == 0
    assert not (tmp_path / "dropped").exists()


def test_a_moment_of_another_life_of_the_machine_counts_for_nothing(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.open()
    machine.runner.heard(boottime_ns() + int(3600e9), LEASE)
    machine.close()
    machine.open()
    attempt = machine.shell("true", once=True)
    time.sleep(3 * POLL_S)
    assert not [event for event in machine.events if event.attempt == attempt]
    machine.runner.heard(boottime_ns(), LEASE)
    assert machine.end_of(attempt).exit_code == 0
    machine.close()


def test_it_dies_with_its_supervisor(machine: Machine, tmp_path: Path) -> None:
    attempt = counting(machine, tmp_path)
    (main,) = [pid for pid in processes_of(machine, attempt) if os.getsid(pid) == pid and is_leader(pid)]
    os.kill(parent_of(main), signal.SIGKILL)
    assert wait_for(lambda: not is_running(main))
    assert machine.end_of(attempt).cause is Cause.SUPERVISOR_LOST
    assert processes_of(machine, attempt) == []


def test_other_tasks_run_on_whoever_is_heard(machine: Machine, tmp_path: Path) -> None:
    attempt = machine.launch("python3", "-c", COUNTS, str(tmp_path))
    machine.until(lambda: len(list(tmp_path.glob("*.beats"))) == 4)
    time.sleep(LEASE + 2 * POLL_S)
    assert not stands_still(tmp_path)
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    machine.end_of(attempt)


def test_the_lease_is_over_long_before_another_attempt_may_start() -> None:
    assert LEAST_SILENT_S - LEASE_PART * LEAST_SILENT_S >= 2 * POLL_S


def is_leader(pid: int) -> bool:
    """Of the session that the supervisor made for the task: its parent is no process of the task."""
    return b"TGPU_ATTEMPT_KEY" not in Path(f"/proc/{parent_of(pid)}/environ").read_bytes()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(happened: Callable[[], bool], within_s: float = 60) -> bool:
    """Without the agent: its runner does not run meanwhile."""
    deadline = time.monotonic() + within_s
    while not happened():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
