"""The cgroup of a task: for real where this machine has one, and version 2's files on paper."""

import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine, is_running
from tgpu.domain.lifecycle import Cause
from tgpu.runner.cgroup import Cgroups, detect

real = detect("tgpu-test-probe")
if real is not None:
    Path(real.base).rmdir()


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, cgroups=True)
    machine.cluster = f"test-{uuid.uuid4().hex}"
    machine.open()
    base = Path(machine.runner._cgroups.base)
    yield machine
    machine.close()
    machine.loop.close()
    assert not base.exists()


@pytest.mark.skipif(real is None, reason="no cgroup can be made here")
def test_a_task_that_lasts_is_in_its_own_cgroup_without_its_supervisor(
    grouped: Machine, tmp_path: Path
) -> None:
    attempt = grouped.shell(f"sleep 600 & echo $! > {tmp_path}/child; sleep 600")
    child = int(grouped.file("child"))
    base = Path(grouped.runner._cgroups.base)
    members = base / attempt / "cgroup.procs"
    grouped.until(lambda: members.exists() and str(child) in members.read_text().split())
    grouped.start_of(attempt)
    assert str(grouped.runner._known.attempts[attempt].claim.pid) not in members.read_text().split()
    grouped.runner.stop(attempt, Cause.CANCELLED, "")
    grouped.end_of(attempt)
    assert not is_running(child)
    grouped.until(lambda: not (base / attempt).exists())


@pytest.mark.skipif(real is None, reason="no cgroup can be made here")
def test_the_cgroup_finds_strays_that_wiped_their_environment(grouped: Machine, tmp_path: Path) -> None:
    script = f"env -i setsid sleep 600 & echo $! > {tmp_path}/stray; exec sleep 600"
    attempt = grouped.shell(script)
    stray = int(grouped.file("stray"))
    grouped.start_of(attempt)
    members = Path(grouped.runner._cgroups.base) / attempt / "cgroup.procs"
    grouped.until(lambda: members.exists() and str(stray) in members.read_text().split())
    os.kill(grouped.runner._known.attempts[attempt].claim.pid, 9)
    assert grouped.end_of(attempt).cause is Cause.SUPERVISOR_LOST
    grouped.until(lambda: not is_running(stray))


def on_paper(tmp_path: Path, mounts: str, own: str) -> Path:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mounts").write_text(mounts)
    (proc / "cgroup").write_text(own)
    return proc


def test_version_2_is_used_below_our_own_group(tmp_path: Path) -> None:
    own = tmp_path / "cg" / "system.slice" / "tgpu.service"
    (own / "tgpu-c1").mkdir(parents=True)
    (own / "tgpu-c1" / "cgroup.procs").touch()
    mounts = f"proc /proc proc rw 0 0\ncgroup2 {tmp_path}/cg cgroup2 rw,nosuid 0 0\n"
    found = detect("c1", str(on_paper(tmp_path, mounts, "0::/system.slice/tgpu.service\n")))
    assert found is not None
    assert found.base == str(own / "tgpu-c1")


def test_version_1_serves_where_there_is_no_version_2(tmp_path: Path) -> None:
    for name in ("pids", "freezer"):
        (tmp_path / name / "tgpu-c1").mkdir(parents=True)
        (tmp_path / name / "tgpu-c1" / "cgroup.procs").touch()
    mounts = f"c {tmp_path}/pids cgroup rw,pids 0 0\nc {tmp_path}/freezer cgroup rw,freezer 0 0\n"
    found = detect("c1", str(on_paper(tmp_path, mounts, "8:pids:/\n6:freezer:/\n")))
    assert found is not None
    assert found.base == str(tmp_path / "freezer" / "tgpu-c1")


def test_without_any_there_is_none(tmp_path: Path) -> None:
    assert detect("c1", str(on_paper(tmp_path, "proc /proc proc rw 0 0\n", ""))) is None


def test_killing_is_one_word_in_version_2_and_one_by_one_in_version_1(tmp_path: Path) -> None:
    cgroups = Cgroups(str(tmp_path))
    (tmp_path / "1.0.1").mkdir()
    (tmp_path / "1.0.1" / "cgroup.kill").touch()
    cgroups.kill("1.0.1")
    assert (tmp_path / "1.0.1" / "cgroup.kill").read_text() == "1"
    with subprocess.Popen(["sleep", "600"]) as process:
        (tmp_path / "2.0.1").mkdir()
        (tmp_path / "2.0.1" / "cgroup.procs").write_text(f"{process.pid}\n")
        cgroups.kill("2.0.1")
        assert process.wait(5) == -9
    cgroups.kill("3.0.1")
    cgroups.remove("3.0.1")
