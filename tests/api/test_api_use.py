"""GET /jobs/{job_id}/use, the sums of attempts and what a job is advised."""

from dataclasses import replace

import httpx

from tests.api.conftest import ServerUnderTest
from tests.api.stories import assign, end, start, submit
from tgpu.agent.use.gpu_meter import GpuNow
from tgpu.agent.use.measured import Measured
from tgpu.agent.use.series import Series
from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Cause, Happening
from tgpu.domain.use import Use
from tgpu.protocol.use import packed
from tgpu.runner.look import Look

MIB = 1 << 20
START = 1_769_860_800_000


def measured() -> bytes:
    task = Measured("1.0.1", START, Series(5.0))
    gpu = GpuNow(percent=150.0, memory_mib=2000, busy_ms=15_000, devices=(0, 1), gpu_milli=2000)
    task.looked(Look(cpu_us=10_000_000, memory_bytes=100 * MIB, disk_read_bytes=3 * MIB), gpu, START + 5000)
    task.looked(
        Look(cpu_us=12_500_000, memory_bytes=50 * MIB, disk_read_bytes=3 * MIB),
        replace(gpu, percent=None),
        START + 10_000,
    )
    return packed(task.file(gpu))


def test_the_course_of_a_running_task_comes_from_its_node(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    submit(server)
    assert client.get("/jobs/1/use").status_code == 404
    assign(server, 1)
    start(server, 1)
    server.logs.data["1.0.1", "use"] = measured()
    assert client.get("/jobs/1/use").json() == {
        "attempt_id": "1.0.1",
        "status": "running",
        "node_id": "ws1",
        "started_at": "2026-01-31T12:00:00.000Z",
        "measured_at": "2026-01-31T12:00:10.000Z",
        "step_s": 5.0,
        "cpu_time_s": 12.5,
        "gpu_busy_s": 15.0,
        "throttled_percent": None,
        "latest": {
            "seconds": 5.0,
            "cpu": 0.5,
            "memory_mb": 50.0,
            "gpu_memory_mb": 2000.0,
            "disk_read_mb": 0.0,
        },
        "columns": {
            "seconds": [5.0, 5.0],
            "cpu": [2.0, 0.5],
            "cpu_peak": [2.0, 0.5],
            "memory_mb": [100.0, 50.0],
            "memory_mb_peak": [100.0, 50.0],
            "gpu_percent": [150.0, None],
            "gpu_percent_peak": [150.0, None],
            "gpu_memory_mb": [2000.0, 2000.0],
            "gpu_memory_mb_peak": [2000.0, 2000.0],
            "disk_read_mb": [3.0, 0.0],
        },
    }
    assert client.get("/jobs/1/use?attempt=1&task=0").status_code == 200
    for query in ("attempt=2", "task=1"):
        assert client.get(f"/jobs/1/use?{query}").status_code == 404


def test_where_nothing_was_measured_it_says_so(server: ServerUnderTest, client: httpx.Client) -> None:
    submit(server)
    assign(server, 1)
    start(server, 1)
    for kept in (b"", b"half of a fi"):
        server.logs.data["1.0.1", "use"] = kept
        answer = client.get("/jobs/1/use")
        assert answer.status_code == 404
        assert answer.json()["detail"].startswith("nothing was measured of job 1: it has not run yet, or")


def test_a_job_that_is_over_shows_what_it_used_and_what_would_do(
    server: ServerUnderTest, client: httpx.Client
) -> None:
    submit(server, request=Request(cpu_milli=8000, memory_mib=65536))
    assign(server, 1)
    start(server, 1)
    assert client.get("/jobs/1").json()["attempts"][0]["use"] is None
    use = Use(
        measured_s=600, cpu_mean_milli=950, cpu_peak_milli=1100, memory_peak_mib=900, disk_read_bytes=MIB
    )
    end(
        server, 1, Happening.SUCCEEDED, Cause.EXITED,
        exit_code=0, started_ms=START, ended_ms=START + 600_000, cpu_ms=570_000, use=use,
    )  # fmt: skip
    job = client.get("/jobs/1").json()
    assert job["attempts"][0]["use"] == {
        "measured_s": 600,
        "cpu_mean": 0.95,
        "cpu_peak": 1.1,
        "throttled_percent": None,
        "memory_peak_mb": 900,
        "gpus_used": None,
        "gpu_memory_peak_mb": None,
        "disk_read_mb": 1.0,
        "disk_written_mb": None,
        "net_received_mb": None,
        "net_sent_mb": None,
    }
    assert job["advice"] == [
        "asked for 64G memory, peaked at 900M: --memory 1280M would do",
        "asked for 8 CPUs, used 1.1 at most: --cpus 2 would do",
    ]
