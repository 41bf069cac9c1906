"""A /tmp and a /dev/shm for each task, and nothing of them afterwards."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause
from tgpu.domain.output_files import OutputPaths
from tgpu.runner import private_tmp
from tgpu.runner.limits import Limits

pytestmark = pytest.mark.skipif(bool(private_tmp.why_not()), reason="this machine does not let us")


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, private_tmp=True)
    machine.open()
    yield machine
    machine.close()
    machine.loop.close()


def folders(machine: Machine) -> list[Path]:
    return list((machine.home / "records" / "tmp").iterdir())


def test_it_sees_nothing_of_others_and_leaves_nothing(private: Machine) -> None:
    mine = Path(f"/tmp/tgpu-test-{os.getpid()}")
    script = f"ls -A /tmp /dev/shm; touch {mine} /dev/shm/{mine.name}; ls /tmp; stat -c %a /tmp /dev/shm"
    attempt = private.shell(script)
    assert private.end_of(attempt).exit_code == 0
    assert private.output(attempt).decode().split() == [
        "/dev/shm:", "/tmp:", mine.name, "1777", "1777",
    ]  # fmt: skip
    assert not mine.exists()
    assert not Path("/dev/shm", mine.name).exists()
    private.until(lambda: folders(private) == [])
    assert str(private.home) not in Path("/proc/self/mounts").read_text()


def test_another_user_can_use_it_and_only_it_is_different(private: Machine) -> None:
    script = "id -u; echo x > /tmp/a; cat /tmp/a; readlink /proc/self/ns/pid; ls -d /etc/passwd"
    attempt = private.shell(script, user="nobody")
    assert private.end_of(attempt).exit_code == 0
    *lines, pids, passwd = private.output(attempt).decode().split()
    assert lines == ["65534", "x"]
    assert pids == str(Path("/proc/self/ns/pid").readlink())
    assert passwd == "/etc/passwd"


def test_the_next_task_of_a_supervisor_finds_nothing_of_the_one_before(private: Machine) -> None:
    """Whether it left nothing, a file on disk, one in memory, or a mount."""
    script = "ls -A /tmp /dev/shm; grep -c ' /mnt ' /proc/self/mounts; stat -f -c '%b %S' /dev/shm"
    before = (
        "true",
        "touch /tmp/a",
        "touch /dev/shm/a",
        "mount -t tmpfs none /mnt",
        "mount -t tmpfs none /tmp",
    )
    for number, left in enumerate(before, 1):
        limits = Limits(memory_limit_mib=4 * number)
        attempt = private.shell(f"{script}; {left}", limits=limits)
        assert private.end_of(attempt).exit_code == 0
        *names, mounts, blocks, size = private.output(attempt).decode().split()
        assert (names, mounts) == (["/dev/shm:", "/tmp:"], "0"), left
        assert int(blocks) * int(size) == limits.memory_limit_mib << 20


def test_a_task_that_works_in_tmp_after_one_that_did_not_sees_the_machines(private: Machine) -> None:
    assert private.run("true").exit_code == 0
    assert private.run("ls", "-d", str(private.home), cwd="/tmp").exit_code == 0
    assert private.run("ls", "-d", str(private.home)).exit_code == 2


def test_memory_file_systems_are_as_large_as_its_memory(private: Machine) -> None:
    attempt = private.launch("stat", "-f", "-c", "%b %S", "/dev/shm", limits=Limits(memory_limit_mib=8))
    private.end_of(attempt)
    blocks, size = map(int, private.output(attempt).split())
    assert blocks * size == 8 << 20


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_one_that_works_there_keeps_the_machines_own(private: Machine, folder: str) -> None:
    attempt = private.launch("ls", "-d", str(private.home), cwd=folder)
    assert private.end_of(attempt).exit_code == 0
    assert folders(private) == [] if (private.home / "records" / "tmp").exists() else True


def test_what_a_killed_supervisor_left_is_removed(private: Machine) -> None:
    attempt = private.shell("echo x > /tmp/a; sleep 600")
    private.start_of(attempt)
    private.until(lambda: [path for folder in folders(private) for path in folder.iterdir()])
    os.kill(private.runner._known.attempts[attempt].claim.pid, 9)
    assert private.end_of(attempt).cause is Cause.SUPERVISOR_LOST
    assert folders(private) == []


def test_what_an_agent_finds_of_tasks_that_are_over_is_removed(private: Machine) -> None:
    attempt = private.shell("echo x > /tmp/a; sleep 600")
    private.start_of(attempt)
    private.close()
    left = private.home / "records" / "tmp" / "99.0.1"
    left.mkdir()
    (left / "a").touch()
    private.open()
    assert [path.name for path in folders(private)] == [attempt]
    private.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    private.end_of(attempt)
    private.until(lambda: folders(private) == [])


def test_a_program_below_the_machines_own_is_not_found_and_it_is_told_why(
    private: Machine, tmp_path: Path
) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    end = private.end_of(private.launch(str(program), cwd="/"))
    assert end.cause is Cause.COULD_NOT_START
    assert end.detail == f"{program}: no such file (the job has a /tmp and a /dev/shm of its own)"
    elsewhere = private.end_of(private.launch("/nowhere/program", cwd="/"))
    assert elsewhere.detail == "/nowhere/program: no such file"


def test_output_that_is_to_outlive_the_task_is_not_written_where_it_would_not(private: Machine) -> None:
    """By name it goes to the machine's own; a link that leads there is seen only once it is followed."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as elsewhere, tempfile.TemporaryDirectory() as there:
        out, link = Path(there, "out.txt"), Path(elsewhere, "link")
        around = f"{elsewhere}/../../..{out}"
        assert private.run("echo", "x", files=OutputPaths(around, around, append=False)).exit_code == 0
        assert out.read_text() == "x\n"

        link.symlink_to("/tmp")
        linked = f"{link}/tgpu-test-{os.getpid()}.txt"
        end = private.run("echo", "y", files=OutputPaths(linked, linked, append=False))
        assert end.cause is Cause.COULD_NOT_START
        place = f"/tmp/{Path(linked).name}"
        assert end.detail == (
            f"cannot write its output to {linked}: that is {place}, and the job has a /tmp and a /dev/shm of "
            f"its own; name it so (--output {place}), and it has the machine's"
        )
