"""Limits from a flag to the kernel and back to the words that people read."""

import os

import pytest

from tests.end_to_end.whole_tgpu import Installation
from tests.runner.test_cgroup import needs_cgroups


@needs_cgroups
def test_a_job_that_takes_too_much_memory_is_told_so(shared: Installation) -> None:
    hog = ("--", "python3", "-c", "x = bytearray(200 << 20)")
    job_id = shared.submit("--memory", "32M", "--memory-limit", "64M", "--cpu-limit", "2.5", *hog)
    job = shared.wait_status(job_id, "failed")
    assert (job["cause"], job["cpu_limit"], job["mem_limit_mb"]) == ("out-of-memory", 2.5, 64)
    words = "out of memory: it used 64 MiB of its limit of 64 MiB"
    assert job["reason"] == words
    (attempt,) = job["attempts"]
    assert (attempt["reason"], attempt["mem_limit_mb"]) == (words, 64)
    card = shared.tgpu("show", str(job_id)).stdout
    assert "uses up to 2.5 CPUs, uses up to 64M memory" in card
    assert words in card


@needs_cgroups
def test_without_a_word_a_job_may_use_what_it_reserves(shared: Installation) -> None:
    script = (
        "sed -n 's/.*:\\(cpu\\|memory\\|pids\\)://p' /proc/self/cgroup | while read -r g; do "
        "cat /sys/fs/cgroup/*$g/cpu.cfs_quota_us /sys/fs/cgroup/*$g/memory.limit_in_bytes "
        "/sys/fs/cgroup/*$g/pids.max 2>/dev/null; done; cat /proc/self/oom_score_adj"
    )
    job_id = shared.submit("--cpus", "2", "--memory", "64M", "--class", "low", "--", "sh", "-c", script)
    shared.wait_status(job_id, "completed")
    said = shared.tgpu("logs", str(job_id)).stdout.split()
    assert sorted(set(said)) == sorted(["200000", str(64 << 20), "8192", "350"])


def test_a_limit_below_the_request_is_refused_with_a_sentence(shared: Installation) -> None:
    done = shared.tgpu("submit", "--cpus", "2", "--cpu-limit", "1", "--", "true", check=False)
    assert done.returncode == 2
    assert "--cpu-limit must be at least" in done.stderr


@needs_cgroups
def test_doctor_says_what_is_enforced(shared: Installation) -> None:
    said = {check["name"]: check for check in shared.json("doctor")}
    for name in ("cpu limit", "memory limit", "processes", "freezer", "devices", "cpu pinning"):
        assert (said[name]["level"], said[name]["text"]) == ("ok", "enforced")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a job a /tmp of its own")
def test_a_job_has_a_tmp_of_its_own_unless_it_works_there(shared: Installation) -> None:
    there = ("--", "ls", "-d", str(shared.files))
    hidden = shared.wait_status(shared.submit("--cwd", "/", *there), "failed")
    assert hidden["exit_code"] == 2
    assert shared.wait_status(shared.submit(*there), "completed")["exit_code"] == 0
