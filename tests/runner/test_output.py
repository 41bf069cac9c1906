"""What a task prints: kept whole while it fits, then the newest part, and never at the task's expense."""

import os
import time
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause
from tgpu.runner.output import Stream
from tgpu.runner.port import LogPart


def test_both_outputs_are_kept_apart_and_byte_for_byte(machine: Machine) -> None:
    script = "import os; os.write(1, bytes(range(256)) * 8); os.write(2, b'oh\\xff')"
    attempt = machine.launch("python3", "-c", script)
    machine.end_of(attempt)
    assert machine.output(attempt) == bytes(range(256)) * 8
    assert machine.output(attempt, "stderr") == b"oh\xff"


def test_it_can_be_read_in_parts_and_from_the_end(machine: Machine) -> None:
    attempt = machine.shell("printf 0123456789")
    machine.end_of(attempt)
    read = machine.runner.read_log
    assert read(attempt, "stdout", 3, 4) == LogPart(3, b"3456")
    assert read(attempt, "stdout", -3, 100) == LogPart(7, b"789")
    assert read(attempt, "stdout", -300, 100) == LogPart(0, b"0123456789")
    assert read(attempt, "stdout", 10, 100) == LogPart(10, b"")
    assert read(attempt, "stdout", 99, 100) == LogPart(10, b"")


def test_the_oldest_goes_first_when_there_is_too_much(machine: Machine) -> None:
    cap = 64 << 10
    script = "import os\nfor i in range(40_000): os.write(1, b'%07d\\n' % i)"
    attempt = machine.launch("python3", "-c", script, log_cap_bytes=cap)
    machine.end_of(attempt)
    total = 40_000 * 8
    kept = sum(path.stat().st_size for path in (machine.home / "logs" / attempt).glob("stdout.*"))
    assert cap // 2 <= kept <= cap
    part = machine.runner.read_log(attempt, "stdout", 0, 1 << 20)
    assert part.offset == total - kept
    assert part.data == b"".join(b"%07d\n" % i for i in range((total - kept) // 8, 40_000))
    assert machine.runner.read_log(attempt, "stdout", -8, 100) == LogPart(total - 8, b"0039999\n")


def test_one_line_of_50_mb_is_no_trouble(machine: Machine) -> None:
    attempt = machine.shell("head -c 50000000 /dev/zero | tr '\\0' x", log_cap_bytes=8 << 20)
    end = machine.end_of(attempt)
    assert end.exit_code == 0
    part = machine.runner.read_log(attempt, "stdout", -10, 100)
    assert part == LogPart(50_000_000 - 10, b"x" * 10)
    supervisors = machine.home / "logs" / attempt
    assert sum(path.stat().st_size for path in supervisors.iterdir()) <= 8 << 20


def test_it_can_be_read_while_the_task_runs(machine: Machine) -> None:
    attempt = machine.shell("echo now; sleep 60", grace_s=0)
    machine.until(lambda: machine.output(attempt) == b"now\n")
    machine.runner.stop(attempt, Cause.CANCELLED, "")
    machine.end_of(attempt)


def test_whoever_else_holds_the_pipe_does_not_hold_up_the_end(machine: Machine, tmp_path: Path) -> None:
    """A stranger opens the job's output by its name in /proc and keeps it."""
    waits = f"until test -e {tmp_path}/gate; do sleep 0.02; done"
    attempt = machine.shell(f"echo $$ > {tmp_path}/pid; echo one; {waits}; echo two")
    pid = machine.file("pid")
    stranger = os.open(f"/proc/{pid}/fd/1", os.O_WRONLY)
    (tmp_path / "gate").touch()
    try:
        assert machine.end_of(attempt).exit_code == 0
    finally:
        os.close(stranger)
    assert machine.output(attempt) == b"one\ntwo\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_costs_the_output_and_nothing_else(tmp_path: Path) -> None:
    pipe, end = os.pipe()
    os.set_blocking(pipe, False)
    stream = Stream(pipe, str(tmp_path / "log"), "stdout", 1 << 20)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "stdout.0").symlink_to("/dev/full")
    os.write(end, b"x" * 1000)
    assert stream.pump()
    assert stream.lost == 1000
    os.close(end)
    assert not stream.pump()
    stream.close()


def test_lost_output_is_noted_at_the_end(machine: Machine) -> None:
    (machine.home / "logs").rmdir()
    (machine.home / "logs").touch()  # nothing can be made below a file
    attempt = machine.shell("echo 12345; exit 4")
    end = machine.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.EXITED, 4)
    assert end.detail == "6 bytes of output could not be written"


def test_old_output_is_swept_but_not_that_of_a_running_task(machine: Machine) -> None:
    over, running = machine.shell("echo a"), machine.shell("echo b; sleep 60", grace_s=0)
    machine.end_of(over)
    machine.until(lambda: machine.output(running) == b"b\n")
    old = time.time() - 3 * 86400
    for path in (machine.home / "logs").rglob("*"):
        os.utime(path, (old, old))
    assert machine.loop.run_until_complete(machine.runner.sweep_logs(4)) == 0
    assert machine.loop.run_until_complete(machine.runner.sweep_logs(2)) == 1
    assert not (machine.home / "logs" / over).exists()
    assert machine.output(running) == b"b\n"
    machine.runner.stop(running, Cause.CANCELLED, "")
    machine.end_of(running)
