"""What a job uses, from its processes to `tgpu show`, through crashes of the agent."""

import sys
from typing import Any

import pytest

from tests.end_to_end.whole_tgpu import Installation
from tgpu.client import TgpuError

PROGRAM = """
import os, time
held = bytearray(80 << 20)
with open("big", "wb") as file:
    file.write(held[: 20 << 20])
    os.fsync(file.fileno())
print("ready", flush=True)
while not os.path.exists("enough"):
    for _ in range(100_000):
        pass
"""


@pytest.fixture
def watched(installation: Installation) -> Installation:
    """That looks every second."""
    installation.environ["TGPU_SAMPLE_S"] = "1"
    installation.up()
    return installation


def course(up: Installation, job: int) -> Any:
    with up.client() as client:
        try:
            return client.use(job)
        except TgpuError:  # not looked at yet, or its agent is away
            return None


def wait_measured(up: Installation, job: int, least_s: float) -> Any:
    def is_so() -> bool:
        found = course(up, job)
        return found is not None and sum(found["columns"]["seconds"]) >= least_s

    up.wait_until(is_so, f"{least_s} s of its use are known", within_s=60)
    return course(up, job)


def test_a_jobs_use_is_known_while_it_runs_across_a_crash_and_when_it_is_over(watched: Installation) -> None:
    job = watched.submit("--cpus", "1", "--memory", "1G", "--", sys.executable, "-c", PROGRAM)
    watched.wait_status(job, "running")
    before = wait_measured(watched, job, 2.0)
    assert "using" in watched.tgpu("show", str(job)).stdout
    watched.kill("agent")
    watched.up()
    after = wait_measured(watched, job, sum(before["columns"]["seconds"]) + 2.0)
    assert after["attempt_id"] == before["attempt_id"] == f"{job}.0.1"
    assert after["cpu_time_s"] > before["cpu_time_s"]

    (watched.files / "enough").touch()
    (attempt,) = watched.wait_status(job, "completed", within_s=60)["attempts"]
    use = attempt["use"]
    assert 80 <= use["memory_peak_mb"] <= 160
    assert 20 <= use["disk_written_mb"] <= 25
    assert 0 < use["cpu_mean"] <= 1.2
    assert use["measured_s"] >= 4
    drawn = watched.tgpu("show", str(job), "--use").stdout
    for word in ("CPUs", "memory", "disk written"):
        assert f"  {word} " in drawn
    assert sum(course(watched, job)["columns"]["disk_written_mb"]) >= 20
    missing = watched.tgpu("show", str(job + 1), "--use", check=False)
    assert missing.returncode != 0
