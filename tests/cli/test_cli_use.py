"""`tgpu show`: what a job uses now, how that went, and what it should ask for."""

import json

from fake_tgpu import FakeTgpu, a_job, an_attempt

from tests.cli.cli_process import Tgpu

RUNNING = {"status": "running", "assigned_node_id": "n1", "started_at": "2026-01-31T12:00:01.000Z"}
COURSE = {
    "attempt_id": "7.0.1",
    "status": "running",
    "node_id": "n1",
    "started_at": "2026-01-31T12:00:01.000Z",
    "measured_at": "2026-01-31T12:00:41.000Z",
    "step_s": 10.0,
    "cpu_time_s": 60.0,
    "gpu_busy_s": 30.0,
    "throttled_percent": 12,
    "latest": {"seconds": 5.0, "cpu": 1.98, "memory_mb": 2150.4, "gpu_percent": 91.0, "disk_read_mb": 60.0},
    "columns": {
        "seconds": [10.0, 10.0, 10.0, 10.0],
        "cpu": [0.0, 1.0, 2.0, 3.0],
        "cpu_peak": [0.0, 1.5, 2.0, 4.0],
        "memory_mb": [512.0, 512.0, 512.0, 512.0],
        "memory_mb_peak": [512.0, 512.0, 2048.0, 512.0],
        "swap_mb": [0.0, 0.0, 0.0, 0.0],
        "swap_mb_peak": [0.0, 0.0, 0.0, 0.0],
        "gpu_percent": [None, None, 100.0, 50.0],
        "gpu_percent_peak": [None, None, 100.0, 60.0],
        "disk_read_mb": [1024.0, 0.0, 0.0, 0.0],
    },
}


def test_a_running_job_shows_what_it_uses_now(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {7: a_job(7, attempts=[an_attempt()], **RUNNING)}
    server.fixed["/jobs/7/use"] = COURSE
    assert "  using      1.98 CPUs, 2.1G memory, GPUs 91 %, disk read 12M/s" in tgpu("show", "7").stdout


def test_what_cannot_be_told_is_left_out(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {7: a_job(7, attempts=[an_attempt()], **RUNNING)}
    done = tgpu("show", "7")
    assert "using" not in done.stdout
    assert (done.returncode, done.stderr) == (0, "")


def test_how_it_went_is_drawn_from_left_to_right(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {7: a_job(7, **RUNNING)}
    server.fixed["/jobs/7/use"] = COURSE
    title, *lines, last = tgpu("show", "7", "--use").stdout.splitlines()
    assert title == "Job 7  7.0.1 on n1, 40s from left to right"
    assert lines == [
        "  CPUs         ▁▁▁▁▁▁▁▂▃▃▃▃▃▃▃▆▆▆▆▆▆▆▇███████  mean 1.5, most 4",
        "  memory       ██████████████████████████████  mean 512M, most 2G",
        "  GPUs                        ███████▇▅▅▅▅▅▅▅  mean 75 %, most 100 %",
        "  disk read    ███████▅▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁  1G in all",
    ]
    assert last == "  held back 12 % of the time by its limit of CPUs"


def test_programs_get_the_columns(server: FakeTgpu, tgpu: Tgpu) -> None:
    server.jobs = {7: a_job(7, **RUNNING)}
    server.fixed["/jobs/7/use"] = COURSE
    assert json.loads(tgpu("show", "7", "--use", "--json").stdout) == COURSE


def test_a_job_that_is_over_shows_what_to_ask_for_next_time(server: FakeTgpu, tgpu: Tgpu) -> None:
    sentence = "asked for 64G memory, peaked at 9G: --memory 12G would do"
    server.jobs = {7: a_job(7, status="completed", advice=[sentence])}
    assert f"  advice     {sentence}" in tgpu("show", "7").stdout


def test_history_tells_what_attempts_used(server: FakeTgpu, tgpu: Tgpu) -> None:
    use = {"cpu_mean": 1.25, "cpu_peak": 3.9, "memory_peak_mb": 900, "disk_written_mb": 20.5}
    ended = {"status": "completed", "ended_at": "2026-01-31T12:00:41.000Z"}
    server.jobs = {7: a_job(7, attempts=[an_attempt(attempt_id="7.0.1", use=use)], **ended)}
    fields = "id,cpu-mean,cpu-peak,needed-mem,disk-written,disk-read"
    said = tgpu("history", "--since", "2026-01-01", "--attempts", "--fields", fields, "--csv").stdout
    assert said.splitlines()[1] == "7.0.1,1.25,3.9,900,20.5,"


def test_next_to_nothing_is_drawn_flat(server: FakeTgpu, tgpu: Tgpu) -> None:
    columns = {"seconds": [10.0, 10.0], "cpu": [0.0, 0.004], "cpu_peak": [0.0, 0.01]}
    server.jobs = {7: a_job(7, **RUNNING)}
    server.fixed["/jobs/7/use"] = COURSE | {"columns": columns}
    drawn = tgpu("show", "7", "--use").stdout.splitlines()[1].split()[1]
    assert set(drawn) == {"▁"}
