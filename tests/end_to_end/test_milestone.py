"""The first milestone: a shared machine with 8 GPUs and a real queue."""

from pathlib import Path

from tests.end_to_end.whole_tgpu import Installation

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open(sys.argv[1], "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_jobs_share_eight_gpus_without_overlap_and_the_fourth_waits_its_turn(shared: Installation) -> None:
    shows = "echo $CUDA_VISIBLE_DEVICES > $0; sleep 300"
    jobs = []
    for number, gpus in enumerate((2, 4, 2)):
        jobs.append(
            shared.submit("--gpus", str(gpus), "--", "sh", "-c", shows, str(shared.files / f"gpus{number}"))
        )
    for job_id in jobs:
        shared.wait_status(job_id, "running")
    shared.wait_until(lambda: all((shared.files / f"gpus{n}").exists() for n in range(3)), "all three wrote")
    seen = [(shared.files / f"gpus{number}").read_text().strip().split(",") for number in range(3)]
    assert [len(devices) for devices in seen] == [2, 4, 2]
    assert sorted(index for devices in seen for index in devices) == [str(n) for n in range(8)]

    fourth = shared.submit("--gpus", "2", "--name", "fourth", "--", "sleep", "300")
    why = shared.json("why", str(fourth))
    assert why["waiting"] is True
    assert "needs 2 GPUs" in why["summary"]
    assert "0 of 8 GPUs free" in why["summary"]
    assert {holder["job_id"] for holder in why["holders"]} == set(jobs)
    assert sorted(index for holder in why["holders"] for index in holder["devices"]) == list(range(8))
    text = shared.tgpu("why", str(fourth)).stdout
    assert "needs 2 GPUs" in text

    urgent = shared.sleeper("--gpus", "2", "--priority", "5")
    assert shared.json("why", str(fourth))["position"] == 2
    shared.tgpu("cancel", str(jobs[0]))
    assert shared.wait_status(urgent, "running")["devices"] == [int(index) for index in seen[0]]
    assert shared.status(fourth) == "pending"
    shared.tgpu("cancel", str(jobs[2]))
    shared.wait_status(fourth, "running")


def test_cancel_kills_a_job_that_ignores_sigterm_and_has_daemonised_a_child(shared: Installation) -> None:
    pid_file = shared.files / "daemon.pid"
    script = shared.files / "stubborn.py"
    script.write_text(STUBBORN)
    job_id = shared.submit("--gpus", "8", "--grace", "1s", "--", "python3", str(script), str(pid_file))
    shared.wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()), "the daemon lives")
    daemon = int(pid_file.read_text())
    assert alive(daemon)
    shared.tgpu("cancel", str(job_id))
    ended = shared.wait_status(job_id, "cancelled")
    assert ended["cause"] == "cancelled"
    assert not alive(daemon)
    node = shared.json("nodes")[0]
    assert node["gpu_allocated"] == 0
    assert shared.wait_status(shared.submit("--gpus", "8", "--", "true"), "completed")["exit_code"] == 0


def test_nobody_keeps_gpus_by_a_long_grace(shared: Installation) -> None:
    """It may ask for no more than the setting allows, and `--now` ends a grace that has begun."""
    refused = shared.tgpu("submit", "--grace", "24h", "--", "true", check=False)
    assert "by the setting max_grace" in refused.stderr
    marker = shared.files / "stubborn"
    job_id = shared.submit(
        *("--gpus", "8", "--grace", "10m", "--"),
        *("sh", "-c", f"trap 'touch {marker}' TERM; while :; do sleep 0.1; done"),
    )
    shared.wait_status(job_id, "running")
    shared.tgpu("cancel", str(job_id))
    shared.wait_until(marker.exists, "it was told to stop")
    assert "somebody asked to cancel it" in shared.tgpu("why", str(job_id)).stdout
    shared.tgpu("cancel", "--now", str(job_id))
    assert shared.wait_status(job_id, "cancelled")["cause"] == "cancelled"
