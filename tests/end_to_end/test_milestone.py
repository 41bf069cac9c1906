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


def test_jobs_share_eight_gpus_without_overlap_and_the_fourth_waits_its_turn(up: Installation) -> None:
    shows = "echo $CUDA_VISIBLE_DEVICES > $0; sleep 300"
    jobs = []
    for number, gpus in enumerate((2, 4, 2)):
        jobs.append(up.submit("--gpus", str(gpus), "--", "sh", "-c", shows, str(up.files / f"gpus{number}")))
    for job_id in jobs:
        up.wait_status(job_id, "running")
    up.wait_until(lambda: all((up.files / f"gpus{n}").exists() for n in range(3)), "all three wrote")
    seen = [(up.files / f"gpus{number}").read_text().strip().split(",") for number in range(3)]
    assert [len(devices) for devices in seen] == [2, 4, 2]
    assert sorted(index for devices in seen for index in devices) == [str(n) for n in range(8)]

    fourth = up.submit("--gpus", "2", "--name", "fourth", "--", "sleep", "300")
    why = up.json("why", str(fourth))
    assert why["waiting"] is True
    assert "needs 2 GPUs" in why["summary"]
    assert "0 of 8 GPUs free" in why["summary"]
    assert {holder["job_id"] for holder in why["holders"]} == set(jobs)
    assert sorted(index for holder in why["holders"] for index in holder["devices"]) == list(range(8))
    text = up.tgpu("why", str(fourth)).stdout
    assert "needs 2 GPUs" in text

    urgent = up.sleeper("--gpus", "2", "--priority", "5")
    assert up.json("why", str(fourth))["position"] == 2
    up.tgpu("cancel", str(jobs[0]))
    assert up.wait_status(urgent, "running")["devices"] == [int(index) for index in seen[0]]
    assert up.status(fourth) == "pending"
    up.tgpu("cancel", str(jobs[2]))
    up.wait_status(fourth, "running")


def test_cancel_kills_a_job_that_ignores_sigterm_and_has_daemonised_a_child(up: Installation) -> None:
    pid_file = up.files / "daemon.pid"
    script = up.files / "stubborn.py"
    script.write_text(STUBBORN)
    job_id = up.submit("--gpus", "8", "--grace", "1s", "--", "python3", str(script), str(pid_file))
    up.wait_until(lambda: pid_file.exists() and bool(pid_file.read_text()), "the daemon lives")
    daemon = int(pid_file.read_text())
    assert alive(daemon)
    up.tgpu("cancel", str(job_id))
    ended = up.wait_status(job_id, "cancelled")
    assert ended["cause"] == "cancelled"
    assert not alive(daemon)
    node = up.json("nodes")[0]
    assert node["gpu_allocated"] == 0
    assert up.wait_status(up.submit("--gpus", "8", "--", "true"), "completed")["exit_code"] == 0


def test_nobody_keeps_gpus_by_a_long_grace(up: Installation) -> None:
    """It may ask for no more than the setting allows, and `--now` ends a grace that has begun."""
    refused = up.tgpu("submit", "--grace", "24h", "--", "true", check=False)
    assert "by the setting max_grace" in refused.stderr
    marker = up.files / "stubborn"
    job_id = up.submit(
        *("--gpus", "8", "--grace", "10m", "--"),
        *("sh", "-c", f"trap 'touch {marker}' TERM; while :; do sleep 0.1; done"),
    )
    up.wait_status(job_id, "running")
    up.tgpu("cancel", str(job_id))
    up.wait_until(marker.exists, "it was told to stop")
    assert "somebody asked to cancel it" in up.tgpu("why", str(job_id)).stdout
    up.tgpu("cancel", "--now", str(job_id))
    assert up.wait_status(job_id, "cancelled")["cause"] == "cancelled"
