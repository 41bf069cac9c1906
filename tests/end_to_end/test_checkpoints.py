"""Work that is saved is not lost: signals, folders and saves, by real processes from submission to report."""

import sys

from tests.end_to_end.whole_tgpu import Installation

TRAINS = """
import os, pathlib, signal, sys, time
import tgpu

folder = pathlib.Path(os.environ["TGPU_CHECKPOINT_DIR"])
state = folder / "epoch"
epoch = int(state.read_text()) if state.exists() else 0
gate = pathlib.Path(sys.argv[1])
print("from", epoch, flush=True)
if epoch:
    sys.exit(0)

def save(number, frame):
    state.write_text("7")
    tgpu.checkpointed()
    sys.exit(0 if number == signal.SIGUSR1 else 1)

signal.signal(signal.SIGUSR2, save)
while True:
    if gate.exists() and tgpu.checkpointed():
        gate.unlink()
    time.sleep(0.05)
"""


def test_who_saved_its_work_gives_way_loses_little_and_goes_on_where_it_was(
    installation: Installation,
) -> None:
    installation.environ["TGPU_PREEMPTION_BACKOFF"] = "1s"
    installation.up()
    gate = installation.files / "gate"
    low = ("--class", "best-effort", "--grace", "60s", "--time", "20h")
    other = installation.submit("--gpus", "4", "--class", "best-effort", "--time", "1h", "--", "sleep", "300")
    saver = installation.submit(
        *("--gpus", "4", *low, "--stop-signal", "USR2"),
        *("--", sys.executable, "-c", TRAINS, str(gate)),
    )
    installation.wait_status(other, "running")
    installation.wait_status(saver, "running")
    assert installation.show(saver)["last_saved_at"] is None

    installation.kill("agent")  # another one looks where this one has
    installation.up()
    gate.touch()
    installation.wait_until(lambda: installation.show(saver)["last_saved_at"] is not None, "it has saved", 60)
    assert "last saved" in installation.tgpu("show", str(saver)).stdout

    urgent = installation.submit("--gpus", "4", "--class", "real-time", "--", "sleep", "2")
    installation.wait_status(urgent, "running", "completed", within_s=60)
    done = installation.wait_status(saver, "completed", within_s=60)
    assert installation.status(other) == "running", "who would lose all it has done is spared"
    first, second = done["attempts"]
    assert (first["cause"], first["exit_code"]) == ("preempted", 1)
    assert first["lost_s"] < first["run_s"] / 2, "it saved once more in its grace"
    assert second["cause"] == "exited"
    assert installation.tgpu("logs", str(saver)).stdout.endswith("from 7\n")
    assert done["last_saved_at"] > first["started_at"]


def test_a_job_is_warned_before_its_time_limit_and_ends_in_time(shared: Installation) -> None:
    script = "trap 'echo saved; exit 0' USR1; echo up; while :; do sleep 0.05; done"
    job = shared.submit("--time", "60s", "--signal", "USR1@57", "--", "bash", "-c", script)
    done = shared.wait_status(job, "completed", within_s=60)
    assert (done["warn_signal"], done["warn_s"], done["exit_code"]) == ("USR1", 57, 0)
    assert shared.tgpu("logs", str(job)).stdout == "up\nsaved\n"
