"""Expected starts against what the real planner does, in virtual time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.mark.timeout(300)
def test_recurring_jobs_of_several_users_start_inside_their_intervals() -> None:
    """Two nodes of 8 GPUs, six users with three recurring jobs each, one queue that is mostly full."""
    done = subprocess.run(
        [sys.executable, str(BENCH / "estimates.py"), "--quick", "--json"],
        env={**os.environ, "PYTHONPATH": str(BENCH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cases = {case["case"]: case for case in map(json.loads, done.stdout.splitlines())}
    (inside,) = [case for name, case in cases.items() if name.startswith("estimates_inside_")]
    assert inside["value"] >= 0.7
    assert cases["estimates_median_width"]["ratio"] <= 1.5, "of the median wait: an interval says something"
    assert cases["estimates_median_error"]["ratio"] <= 0.4
