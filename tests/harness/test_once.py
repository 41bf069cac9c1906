"""The run of `make test`, on a small suite of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import once
from tests.harness.outcomes import Outcome, line_of

REPOSITORY = Path(__file__).parent.parent.parent
FLAKY = """
from pathlib import Path

def test_sound():
    pass

def test_second_time_only():
    mark = Path("tried")
    was_tried = mark.exists()
    mark.touch()
    assert was_tried
"""
BROKEN = "def test_never():\n    assert False\n"
CRASHING = "import os\n\ndef test_crash():\n    os._exit(3)\n"


def small_suite(folder: Path, text: str) -> dict[str, str]:
    """The environment to run it in: with no plugin that it does not need."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    return {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTEST_ADDOPTS": "-p xdist -p no:cacheprovider",
    }


def run(folder: Path, text: str, workers: int) -> tuple[int, str]:
    env = small_suite(folder, text)
    command = [sys.executable, "-m", "tests.harness.once", "-n", str(workers)]
    said = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, text=True)
    return said.returncode, said.stdout


def test_failed_tests_are_run_again_alone_and_listed_in_the_last_lines(tmp_path: Path) -> None:
    status, printed = run(tmp_path, FLAKY + BROKEN, workers=2)
    assert status == 1
    assert printed.splitlines()[-2:] == [
        "FLAKY test_it.py::test_second_time_only - failed, then passed alone",
        "FAILED test_it.py::test_never - failed twice",
    ]


def test_crash_of_a_worker_is_not_retried(tmp_path: Path) -> None:
    status, printed = run(tmp_path, CRASHING, workers=1)
    assert status == 1
    assert "again, each alone" not in printed


@pytest.mark.parametrize(
    ("exit_status", "failures", "broken", "result"),
    [
        (0, 0, False, 0),
        (1, 10, False, 0),
        (1, 11, False, 1),
        (1, 1, True, 1),
        (1, 0, False, 1),
        (2, 1, True, 2),
        (3, 1, False, 3),
    ],
    ids=["passed", "ten flaky", "too many", "crash", "no test named", "collection error", "internal error"],
)
def test_only_a_few_failed_tests_are_worth_a_second_run(
    monkeypatch: pytest.MonkeyPatch, exit_status: int, failures: int, broken: bool, result: int
) -> None:
    tests, retried = [f"a.py::test_{number}" for number in range(failures)], []

    def suite(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        named = [word.removeprefix("--outcomes=") for word in command if word.startswith("--outcomes=")]
        if not named:
            retried.append(command[-1])
            return subprocess.CompletedProcess(command, 0)
        lines = [Outcome(test, failed=True, duration_s=0, broken=broken) for test in tests]
        Path(named[0]).write_text("".join(map(line_of, lines)))
        return subprocess.CompletedProcess(command, exit_status)

    monkeypatch.setattr(subprocess, "run", suite)
    assert once.main([]) == result
    assert retried == (tests if failures and not result else [])
