"""Real jobs, and what they are said to have been given and used."""

import csv
import io

from tests.end_to_end.whole_tgpu import Installation

BURN = """
import time
block = bytearray(80 << 20)
while time.process_time() < 1.5:
    pass
"""


def test_a_report_of_real_jobs_is_right(up: Installation) -> None:
    burner = up.submit("--gpus", "2", "--cpus", "4", "--memory", "1G", "--", "python3", "-c", BURN)
    sleeper = up.submit("--gpus", "0.5", "--", "sleep", "2")
    failed = up.submit("--", "sh", "-c", "exit 3")
    for job_id, status in ((burner, "completed"), (sleeper, "completed"), (failed, "failed")):
        up.wait_status(job_id, status, within_s=60)
    runs = up.sleeper("--gpus", "1")
    up.wait_status(runs, "running")

    report = up.json("report", "--by", "user,class", "--since", "1h")
    (row,) = report["rows"]
    figures = row["figures"]
    assert figures == report["total"]
    assert (figures["attempts"], figures["jobs"]) == (4, 4)
    (burnt,) = up.show(burner)["attempts"]
    (slept,) = up.show(sleeper)["attempts"]
    least = 2 * burnt["run_s"] + 0.5 * slept["run_s"]
    assert least <= figures["gpu_s"] <= least + 60, "and what runs, so far"
    assert 2 <= slept["run_s"] < 20
    assert 1.4 <= burnt["cpu_time_s"] < 5
    assert burnt["cpu_time_s"] <= figures["cpu_used_s"] < 8
    assert 80 <= burnt["peak_memory_mb"] < 400
    assert burnt["peak_memory_mb"] * burnt["run_s"] * 0.99 <= figures["mem_used_mb_s"]
    assert figures["cpu_measured_s"] < figures["cpu_s"], "what runs has not been measured yet"
    assert (figures["gpu_used_s"], figures["gpu_measured_s"]) == (None, 0), "nobody can ask simulated GPUs"
    assert figures["lost_s"] == 0

    lines = up.tgpu("history", "--csv", "--fields", "id,status,exit,gpus", "--since", "1h").stdout
    rows = {int(line["id"]): line for line in csv.DictReader(io.StringIO(lines))}
    assert set(rows) == {burner, sleeper, failed}
    assert (rows[failed]["status"], rows[failed]["exit"], rows[burner]["gpus"]) == ("failed", "3", "2")
    assert "GPU-hours" in up.tgpu("report", "--chart", "--by", "gpu-type").stdout
