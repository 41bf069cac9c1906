"""Signals reach the processes that were meant, and no other that has their number by now."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.runner.conftest import Machine, is_running
from tgpu.runner import folders, process_signals, tree
from tgpu.runner.cgroups import groups
from tgpu.runner.journal import Claim
from tgpu.runner.records import birth_of


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that has nothing to do with any task."""
    process = subprocess.Popen(["sleep", "100"])
    yield process
    process.kill()
    process.wait()


def test_a_process_that_has_the_number_of_a_claim_by_now_is_left_alone(
    bystander: "subprocess.Popen[bytes]",
) -> None:
    birth = birth_of(bystander.pid)
    assert birth is not None
    Claim(bystander.pid, birth - 1, 0).send(signal.SIGKILL)
    assert bystander.poll() is None
    Claim(bystander.pid, birth, 0).send(signal.SIGKILL)
    assert bystander.wait() == -signal.SIGKILL


def test_a_number_that_is_recycled_between_listing_and_sending_is_not_hit(
    monkeypatch: pytest.MonkeyPatch, bystander: "subprocess.Popen[bytes]"
) -> None:
    """As if one more member had been listed, had ended, and had left its number to the bystander."""
    birth = birth_of(bystander.pid)
    assert birth is not None
    for sent in (
        lambda: tree.terminate(os.getpid(), wake=True, number=signal.SIGKILL),
        lambda: tree.kill(os.getpid()),
    ):
        monkeypatch.setattr(tree, "members", lambda _: {bystander.pid: birth - 1})
        sent()
    monkeypatch.setattr(groups.files, "members", lambda _: [bystander.pid])
    assert groups._kill("/sys/fs/cgroup/freezer/tgpu-none/1.0.1")
    marked = iter([[bystander.pid], []])
    monkeypatch.setattr(folders, "_marked", lambda _: next(marked))
    folders.end_strays("none", {"1.0.1"}, None)
    assert bystander.poll() is None


def test_the_signal_goes_to_the_process_that_was_looked_at(bystander: "subprocess.Popen[bytes]") -> None:
    """It ends between the look and the signal, and its number is free: nothing is sent by number."""

    def end_it(_: int) -> bool:
        bystander.kill()
        bystander.wait()
        return True

    assert process_signals.send(bystander.pid, signal.SIGTERM, end_it)


def test_members_are_all_descendants_however_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sh", "-c", "sleep 100 & sleep 100 & wait"]) as shell:
        while len(found := tree.members(shell.pid)) < 2:
            time.sleep(0.01)
        monkeypatch.setattr(tree, "_has_children_files", lambda: False)
        by_walk = tree.members(shell.pid)
        assert tree.kill(shell.pid)
        shell.kill()
    assert by_walk == found
    while any(map(is_running, found)):  # they die a moment after the signal
        time.sleep(0.01)


def test_cpu_time_of_children_that_are_not_waited_for_is_counted(grouped: Machine) -> None:
    if not grouped.runner._cgroups.bases.keys() & {"", "cpuacct"}:
        pytest.skip("no cgroup counts CPU time here")
    script = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 0.5:
        pass
    sys.exit()
try:
    os.wait()
except ChildProcessError:
    pass
"""
    end = grouped.end_of(grouped.launch("python3", "-S", "-c", script))
    assert end.exit_code == 0
    assert end.cpu_ms >= 500
