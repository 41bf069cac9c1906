"""Runs the suite once. A failed test is run again alone; if it passes then, it is listed as FLAKY.

A run is not saved by this if a worker crashed, a file could not be collected, or more tests failed than
`MOST_RETRIED`: then something is broken.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.harness import outcomes, spread
from tests.harness.outcomes import Outcome

ARGUMENTS = ("-q", "-n", "4", "--dist", "worksteal", "-p", spread.PLUGIN, "--durations", "25")
MOST_RETRIED = 10
_PYTEST = (sys.executable, "-m", "pytest", "-p", outcomes.PLUGIN)
_FAILED = 1


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="tgpu-tests-") as folder:
        record = Path(folder, "outcomes.jsonl")
        command = [*_PYTEST, f"--outcomes={record}", *ARGUMENTS, *arguments]
        status = subprocess.run(command, check=False).returncode
        recorded = outcomes.read(record)
    if status != _FAILED:
        return status
    return _run_again([one for one in recorded if one.failed])


def _run_again(failed: Sequence[Outcome]) -> int:
    if not failed or any(one.broken for one in failed):
        return _FAILED
    if len(failed) > MOST_RETRIED:
        print(f"\n{len(failed)} tests failed, more than {MOST_RETRIED}: none is run again.")
        return _FAILED
    print(f"\nRunning {len(failed)} failed test(s) again, each alone.", flush=True)
    flaky = [one.test for one in failed if _passes_alone(one.test)]
    lost = [one.test for one in failed if one.test not in flaky]
    for test in flaky:
        print(f"FLAKY {test} - failed, then passed alone")
    for test in lost:
        print(f"FAILED {test} - failed twice")
    return _FAILED if lost else 0


def _passes_alone(test: str) -> bool:
    command = [*_PYTEST, "-q", "-n", "0", "-p", "no:cacheprovider", test]
    return subprocess.run(command, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
