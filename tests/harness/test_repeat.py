"""Repeated runs on a small suite of its own: what is recorded, counted and resumed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.harness import load, outcomes
from tests.harness.ledger import Ledger, Run, Series, table
from tests.harness.outcomes import Outcome
from tests.harness.test_once import small_suite

SUITE = """
import os, subprocess, time
from pathlib import Path
import pytest

@pytest.fixture(scope="module")
def server():
    subprocess.run(["true"])

def note(name):
    with open("ran", "a") as file:
        file.write(name + "\\n")

def test_with_fixture(server):
    note("fixture")

def test_with_same_fixture(server):
    note("same")

def test_that_forks():
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    note("forks")

def test_plain():
    note("plain")
    while Path("hold").exists():
        time.sleep(0.01)

def test_failing():
    note("failing")
    assert False
"""
PROCESSES = ["fixture", "same", "forks"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    small_suite(tmp_path, SUITE)
    (tmp_path / ".gitignore").write_text("ran\nhold\n.test-repeat/\n__pycache__/\n.pytest_cache/\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run([*git, "add", "."], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-qm", "a suite"], cwd=tmp_path, check=True)
    return tmp_path


def start(project: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.harness.repeat", *arguments, "--", "-n", "0"]
    env = small_suite(project, SUITE)
    return subprocess.Popen(
        command, cwd=project, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def ran(project: Path) -> list[str]:
    path = project / "ran"
    return path.read_text().split() if path.exists() else []


def test_interrupted_run_is_resumed_and_tests_that_start_processes_are_repeated(project: Path) -> None:
    (project / "hold").touch()
    arguments = ("--only", "processes", "--runs", "2")
    first = start(project, *arguments)
    deadline = time.monotonic() + 60
    while "plain" not in ran(project):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    (project / "hold").unlink()
    second = start(project, *arguments)
    printed, _ = second.communicate()
    noting = [*PROCESSES, "plain", "plain", "failing"]  # the test that was interrupted is run again
    assert ran(project) == [*noting, *PROCESSES, *PROCESSES]
    assert printed.splitlines()[-1] == "No test failed."
    assert second.returncode == 0
    third = start(project, "--runs", "1")
    printed, _ = third.communicate()
    assert "Run " not in printed, "the run of all tests is recorded"
    assert printed.splitlines()[-1] == "  1 of 1  test_it.py::test_failing"
    assert third.returncode == 1


def test_second_run_in_the_same_folder_is_refused(project: Path) -> None:
    (project / ".test-repeat").mkdir()
    held = Ledger(project / ".test-repeat")
    held.lock()
    refused = start(project, "--runs", "1")
    refused.communicate()
    assert refused.returncode == 2


def test_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    ledger, series = Ledger(tmp_path / "book"), Series("abc", "all", 0)
    path, kept = ledger.outcomes_of(series, 1), Outcome("a.py::test_a", failed=True, duration_s=0.5)
    path.write_text(outcomes.line_of(kept) + outcomes.line_of(kept)[:20])
    assert ledger.done(series, 1) == [kept]
    assert path.read_text() == outcomes.line_of(kept)


def test_runs_of_another_commit_load_or_selection_do_not_count(tmp_path: Path) -> None:
    ledger, series = Ledger(tmp_path / "book"), Series("abc", "all", 2)
    run = Run(series, 1, 12.5, 2, 1, ("a.py::test_a",))
    ledger.add(run)
    assert ledger.runs(series) == [run]
    for other in (Series("abd", "all", 2), Series("abc", "processes", 2), Series("abc", "all", 1)):
        assert ledger.runs(other) == []
    assert "1 of 1  a.py::test_a" in table([run])


def test_busy_processes_end_with_their_block() -> None:
    with load.busy(2) as pids:
        assert len(pids) == 2
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
