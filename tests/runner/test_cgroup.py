"""The cgroups of a task: for real where this machine has them, and version 2's files on paper."""

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.runner.conftest import Machine, is_running
from tests.runner.version_2 import Tree, needs_mount
from tgpu.domain.lifecycle import Cause
from tgpu.runner.cgroups import groups, legacy
from tgpu.runner.cgroups.bounds import Bounds, quota, shares, weight
from tgpu.runner.cgroups.detect import LEAF, NOT_DELEGATED, OLD_SYSTEMD, detect
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.cgroups.legacy import Legacy
from tgpu.runner.cgroups.preparation import Preparation
from tgpu.runner.cgroups.unified import Unified
from tgpu.runner.limits import Limits

real = detect("tgpu-test-probe").cgroups
if real is not None:
    real.close()
needs_cgroups = pytest.mark.skipif(real is None, reason="no cgroup can be made here")


@needs_cgroups
def test_a_task_that_lasts_is_in_its_own_cgroup_without_its_supervisor(
    grouped: Machine, tmp_path: Path
) -> None:
    attempt = grouped.shell(f"sleep 600 & echo $! > {tmp_path}/child; sleep 600")
    child = int(grouped.file("child"))
    cgroups = grouped.runner._cgroups
    grouped.until(lambda: child in cgroups.members(attempt))
    grouped.start_of(attempt)
    assert grouped.runner._known.attempts[attempt].claim.pid not in cgroups.members(attempt)
    grouped.runner.stop(attempt, Cause.CANCELLED, "")
    grouped.end_of(attempt)
    assert not is_running(child)
    grouped.until(lambda: not [folder for folder in cgroups.folders(attempt) if Path(folder).exists()])


@needs_cgroups
def test_the_cgroup_finds_strays_that_wiped_their_environment(grouped: Machine, tmp_path: Path) -> None:
    script = f"env -i setsid sleep 600 & echo $! > {tmp_path}/stray; exec sleep 600"
    attempt = grouped.shell(script)
    stray = int(grouped.file("stray"))
    grouped.start_of(attempt)
    grouped.until(lambda: stray in grouped.runner._cgroups.members(attempt))
    os.kill(grouped.runner._known.attempts[attempt].claim.pid, 9)
    assert grouped.end_of(attempt).cause is Cause.SUPERVISOR_LOST
    grouped.until(lambda: not is_running(stray))


@needs_cgroups
def test_limits_hold_before_the_first_instruction(grouped: Machine) -> None:
    """The program itself is `cat`: nothing runs before it that could have moved it."""
    attempt = grouped.launch("cat", "/proc/self/cgroup", limits=Limits(memory_limit_mib=64, pids=50))
    grouped.end_of(attempt)
    own = dict(line.split(":")[1:] for line in grouped.output(attempt).decode().splitlines())
    for controller in ("cpu", "memory", "pids", "freezer"):
        assert f"/tgpu-{grouped.cluster}/" in own[controller]


@needs_cgroups
def test_the_limits_of_one_are_not_those_of_the_next_of_the_same_supervisor(grouped: Machine) -> None:
    base = Path(grouped.runner._cgroups.bases["memory"])
    script = (
        "m=$(sed -n 's/.*:memory://p' /proc/self/cgroup); p=$(sed -n 's/.*:pids://p' /proc/self/cgroup); "
        "cat /sys/fs/cgroup/memory$m/memory.limit_in_bytes /sys/fs/cgroup/pids$p/pids.max"
    )
    said = []
    for limits in (Limits(memory_limit_mib=64, pids=50), Limits(memory_limit_mib=32, pids=70), Limits()):
        attempt = grouped.shell(script, limits=limits)
        assert grouped.end_of(attempt).exit_code == 0
        said.append(grouped.output(attempt).decode().split())
    assert said[:2] == [[str(64 << 20), "50"], [str(32 << 20), "70"]]
    assert int(said[2][0]) > 1 << 60
    assert said[2][1] == "max"
    assert base.exists()


def in_a_child(work: Callable[[], None]) -> int:
    """Its exit code, or -SIGALRM if it hangs."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            work()
        except BaseException:  # noqa: BLE001  whatever it is, the test is told
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_cgroups
@pytest.mark.parametrize("gone", ["freezer", "memory", "pids"])
def test_groups_that_vanish_under_a_supervisors_feet_are_made_again(grouped: Machine, gone: str) -> None:
    """As when an agent that ends takes them for forgotten, just before the task is started."""
    cgroups = grouped.runner._cgroups

    def supervise() -> None:
        enclosure = Legacy(cgroups, SimpleNamespace(tasks="0", supervisors="0"))
        enclosure.prepare("7.0.1", Bounds(1000, 1000, 64, 50))
        Path(cgroups.folder(gone, "7.0.1")).rmdir()
        enclosure.enter()
        own = dict(line.split(":")[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
        assert all(own[name].endswith("/7.0.1") for name in ("freezer", "cpu", "memory", "pids")), own
        enclosure.leave()
        assert os.getpid() not in cgroups.members("7.0.1")
        enclosure.close()

    assert in_a_child(supervise) == 0


@needs_cgroups
def test_nobody_freezes_the_group_that_it_stands_in(grouped: Machine) -> None:
    cgroups = grouped.runner._cgroups

    def supervise() -> None:
        enclosure = Legacy(cgroups, SimpleNamespace(tasks="0", supervisors="0"))
        enclosure.prepare("8.0.1", Bounds())
        enclosure.enter()
        with pytest.raises(RuntimeError, match="frozen from within"):
            cgroups.kill("8.0.1")
        enclosure.leave()
        enclosure.close()

    assert in_a_child(supervise) == 0


@needs_cgroups
def test_a_task_gets_no_more_time_than_its_limit(grouped: Machine) -> None:
    end = grouped.run("timeout", "1", "sh", "-c", "while :; do :; done", limits=Limits(cpu_limit_milli=200))
    assert end.exit_code == 124
    assert end.cpu_ms < 500


@needs_cgroups
def test_processes_are_limited_and_the_supervisor_is_not_hurt(grouped: Machine) -> None:
    script = "for i in $(seq 50); do sleep 600 & done; exit 7"
    attempt = grouped.shell(script, limits=Limits(pids=20))
    end = grouped.end_of(attempt)
    assert end.cause is Cause.EXITED
    assert end.exit_code != 0
    assert b"ork" in grouped.output(attempt, "stderr")  # Cannot fork


@needs_cgroups
def test_a_task_that_takes_too_much_memory_ran_out_of_it(grouped: Machine) -> None:
    hog = ("python3", "-c", "x = bytearray(200 << 20)")
    end = grouped.run(*hog, limits=Limits(memory_limit_mib=64))
    assert (end.cause, end.exit_code, end.signal) == (Cause.OUT_OF_MEMORY, None, signal.SIGKILL)
    assert end.detail == "it used 64 MiB of its limit of 64 MiB"
    assert end.memory_limit_mib == 64


@needs_cgroups
def test_one_whose_child_took_too_much_ended_by_itself(grouped: Machine) -> None:
    script = "python3 -c 'x = bytearray(200 << 20)'; exit 3"
    end = grouped.end_of(grouped.shell(script, limits=Limits(memory_limit_mib=64)))
    assert (end.cause, end.exit_code) == (Cause.EXITED, 3)
    words = "out of memory, a process of it was killed: it used 64 MiB of its limit of 64 MiB"
    assert end.detail == words


@needs_cgroups
def test_who_is_killed_by_a_signal_did_not_run_out_of_memory(grouped: Machine) -> None:
    end = grouped.end_of(grouped.shell("kill -9 $$", limits=Limits(memory_limit_mib=64)))
    assert (end.cause, end.signal, end.detail) == (Cause.SIGNALLED, signal.SIGKILL, "")
    assert grouped.end_of(grouped.shell("exit 137", limits=Limits(memory_limit_mib=64))).cause is Cause.EXITED


@needs_cgroups
def test_the_peak_is_that_of_all_its_processes_together(grouped: Machine) -> None:
    hungry = "import time; x = bytearray(40 << 20); time.sleep(0.5)"
    end = grouped.end_of(grouped.shell(f"for i in 1 2 3; do python3 -c '{hungry}' & done; wait"))
    assert 120 <= end.peak_memory_mib < 400


@needs_cgroups
def test_a_gpu_that_was_not_given_cannot_be_opened(tmp_path: Path) -> None:
    """Device files like those of two GPUs, which lead to /dev/zero and /dev/full."""
    for name, minor in (("nvidia0", 5), ("nvidia1", 7), ("nvidiactl", 8)):
        os.mknod(tmp_path / name, 0o666 | 0o020000, os.makedev(1, minor))
    machine = Machine(tmp_path, cgroups=True, devices_dir=tmp_path)
    machine.open()
    try:
        opens = f"for n in 0 1 ctl; do (: < {tmp_path}/nvidia$n) 2>/dev/null && echo $n; done"
        found = []
        for given, minors in (((0,), (0,)), ((1,), (1,)), ((), ()), ((1,), None)):
            env = {"PATH": os.defpath, "CUDA_VISIBLE_DEVICES": ",".join(map(str, given))}
            limits = Limits(devices=given, minors=minors)
            attempt = machine.shell(f"{opens}; echo cuda:$CUDA_VISIBLE_DEVICES", env=env, limits=limits)
            machine.end_of(attempt)
            found.append(machine.output(attempt).decode().split())
    finally:
        machine.close()
        machine.loop.close()
    # CUDA counts what it can open: a task's only GPU is number 0 to it, unless it could open all.
    assert found == [
        ["0", "ctl", "cuda:0"], ["1", "ctl", "cuda:0"], ["ctl", "cuda:"], ["0", "1", "ctl", "cuda:1"],
    ]  # fmt: skip


def test_nothing_is_started_without_the_fence_that_was_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder has no files by which the kernel could be told."""
    base = str(tmp_path / "tgpu")
    monkeypatch.setattr(legacy, "door", lambda _folder: os.open(os.devnull, os.O_WRONLY))
    (tmp_path / "tasks").touch()
    cgroups = Cgroups(1, {"devices": base}, {"devices": str(tmp_path)})
    enclosure = Legacy(cgroups, SimpleNamespace(tasks="0", supervisors="0"))
    with pytest.raises(OSError, match="the kernel fences off no GPUs"):
        enclosure.prepare("1.0.1", Bounds(barred=["195:1"]))
    enclosure.prepare("2.0.1", Bounds(barred=[]))
    enclosure.release()


@needs_cgroups
def test_a_task_is_pinned_to_its_cpus(grouped: Machine) -> None:
    attempt = grouped.launch("nproc", limits=Limits(cpus=(0,)))
    grouped.end_of(attempt)
    assert grouped.output(attempt) == b"1\n"
    attempt = grouped.launch("nproc")
    grouped.end_of(attempt)
    assert int(grouped.output(attempt)) == len(os.sched_getaffinity(0))


def test_without_cgroups_a_task_is_pinned_by_affinity(machine: Machine) -> None:
    attempt = machine.launch("nproc", limits=Limits(cpus=(0,)))
    machine.end_of(attempt)
    assert machine.output(attempt) == b"1\n"


def test_who_goes_first_when_memory_is_used_up_is_told_to_the_kernel(machine: Machine) -> None:
    """And no task is shielded as its supervisor is."""
    said = []
    for limits in (Limits(oom_score_adj=700), Limits()):
        attempt = machine.launch("cat", "/proc/self/oom_score_adj", limits=limits)
        machine.end_of(attempt)
        said.append(int(machine.output(attempt)))
    assert said == [700, int(Path("/proc/self/oom_score_adj").read_text())]


def test_shares_of_time_are_what_the_kernel_takes() -> None:
    assert [quota(milli) for milli in (0, 2500, 10, 1)] == [
        (-1, 100_000),
        (250_000, 100_000),
        (1_000, 100_000),
        (1_000, 1_000_000),
    ]
    assert [shares(milli) for milli in (1, 1000, 512_000_000)] == [2, 1024, 262_144]
    assert [weight(milli) for milli in (1, 1000, 512_000_000)] == [1, 100, 10_000]


def on_paper(tmp_path: Path, mounts: str, own: str) -> str:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "mounts").write_text(mounts)
    (proc / "cgroup").write_text(own)
    return str(proc)


def a_tree(tmp_path: Path, place: str, controllers: str = "cpuset cpu io memory pids") -> Path:
    """As a machine with version 2 alone would have it."""
    own = tmp_path / "cg" / place
    for folder in (own, own.parent if own.name == LEAF else own):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.controllers").write_text(controllers)
        (folder / "cgroup.procs").write_text("11\n12\n")
        (folder / "cgroup.subtree_control").touch()
    top = own.parent if own.name == LEAF else own
    (top / "tgpu-c1").mkdir()
    for name in ("cgroup.procs", "cgroup.subtree_control", "cpu.weight"):
        (top / "tgpu-c1" / name).touch()
    return own


def detect_in(tmp_path: Path, place: str) -> tuple[Cgroups | None, str]:
    mounts = f"proc /proc proc rw 0 0\ncgroup2 {tmp_path}/cg cgroup2 rw,nosuid 0 0\n"
    return detect("c1", on_paper(tmp_path, mounts, f"0::/{place}\n"))[:2]


def test_version_2_gives_controllers_in_a_delegated_group_whose_leaf_we_are(tmp_path: Path) -> None:
    own = a_tree(tmp_path, f"system.slice/tgpu.service/{LEAF}")
    cgroups, why = detect_in(tmp_path, f"system.slice/tgpu.service/{LEAF}")
    base = str(own.parent / "tgpu-c1")
    assert why == ""
    assert cgroups.version == 2
    assert cgroups.bases == {"": base, "cpu": base, "memory": base, "pids": base, "cpuset": base}
    assert (own.parent / "cgroup.subtree_control").read_text() == "+cpuset"
    assert (own.parent / "tgpu-c1" / "cgroup.subtree_control").read_text() == "+cpuset"


def test_version_2_in_a_container_moves_all_into_a_leaf_first(tmp_path: Path) -> None:
    top = a_tree(tmp_path, "", "cpu memory")
    (top / LEAF).mkdir()
    (top / LEAF / "cgroup.procs").touch()
    cgroups, why = detect_in(tmp_path, "")
    assert why == ""
    assert sorted(cgroups.bases) == ["", "cpu", "memory"]
    assert (top / LEAF / "cgroup.procs").read_text() == "12"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("user.slice/user-0.slice/session-3.scope", NOT_DELEGATED),
        ("system.slice/tgpu.service", OLD_SYSTEMD),
    ],
)
def test_version_2_without_delegation_only_tracks(tmp_path: Path, place: str, sentence: str) -> None:
    own = a_tree(tmp_path, place)
    cgroups, why = detect_in(tmp_path, place)
    assert why == sentence
    assert cgroups.bases == {"": str(own / "tgpu-c1")}
    assert (own / "cgroup.subtree_control").read_text() == ""


def test_version_1_serves_where_there_is_both(tmp_path: Path) -> None:
    for name in ("pids", "freezer"):
        (tmp_path / name / "tgpu-c1").mkdir(parents=True)
        (tmp_path / name / "tgpu-c1" / "tasks").touch()
    (tmp_path / "cg").mkdir()
    mounts = f"c {tmp_path}/pids cgroup rw,pids 0 0\nc {tmp_path}/freezer cgroup rw,freezer 0 0\n"
    mounts += f"c {tmp_path}/cg cgroup2 rw 0 0\n"
    cgroups, why, _ = detect("c1", on_paper(tmp_path, mounts, "8:pids:/\n6:freezer:/\n0::/\n"))
    assert why == ""
    assert cgroups.version == 1
    assert cgroups.base == str(tmp_path / "freezer" / "tgpu-c1")
    assert cgroups.homes == {"pids": str(tmp_path / "pids"), "freezer": str(tmp_path / "freezer")}


def test_without_any_there_is_none(tmp_path: Path) -> None:
    cgroups, why, _ = detect("c1", on_paper(tmp_path, "proc /proc proc rw 0 0\n", ""))
    assert cgroups is None
    assert why == "no cgroups are mounted here"


def test_killing_is_one_word_in_version_2_and_one_by_one_where_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_is_member", lambda _pid, _folder: True)  # the kernel knows of no such group
    cgroups = Cgroups(2, {"": str(tmp_path)}, {})
    (tmp_path / "1.0.1").mkdir()
    (tmp_path / "1.0.1" / "cgroup.kill").touch()
    cgroups.kill("1.0.1")
    assert (tmp_path / "1.0.1" / "cgroup.kill").read_text() == "1"
    with subprocess.Popen(["sleep", "600"]) as process:
        (tmp_path / "2.0.1").mkdir()
        (tmp_path / "2.0.1" / "cgroup.procs").write_text(f"{process.pid}\n")
        cgroups.kill("2.0.1")
        assert process.wait(60) == -9
    cgroups.kill("3.0.1")
    cgroups.remove("3.0.1")


def test_what_version_2_is_told_of_a_task(tmp_path: Path) -> None:
    base = str(tmp_path)
    enclosure = Unified(
        Cgroups(2, {"": base, "memory": base, "cpu": base, "pids": base}, {}),
        SimpleNamespace(tasks="0", supervisors="0"),
    )
    folder = tmp_path / "1.0.1"
    names = ("cpu.weight", "cpu.max", "pids.max", "memory.max", "memory.swap.max", "memory.oom.group")
    folder.mkdir()  # as the kernel would have filled it
    for name in (*names, "cpuset.cpus"):
        (folder / name).touch()
    enclosure.prepare("1.0.1", Bounds(2000, 4000, 64, 100, None, "0-3", 500))
    said = {name: (folder / name).read_text() for name in names}
    assert said == {
        "cpu.weight": "200",
        "cpu.max": "400000 100000",
        "pids.max": "100",
        "memory.max": str(64 << 20),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
    }
    assert (folder / "cpuset.cpus").read_text() == "", "a controller that was not given is not spoken to"
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n")
    (folder / "memory.peak").write_text(f"{64 << 20}\n")
    assert (enclosure.oom_kills(), enclosure.was_at_limit(), enclosure.peak_bytes()) == (2, True, 64 << 20)


IS_BORN = """
import os, sys
from tgpu.runner.cgroups import born
child = born.fork_into(os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY))
if child == 0:
    with open("/proc/self/cgroup", "rb") as file:
        os.write(1, file.read())
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
"""In a process of its own: threads that other tests left behind may hold locks of the memory allocator, which
the child would never get."""


@needs_mount
def test_a_child_is_born_in_a_group_of_version_2(tree: Tree) -> None:
    folder = tree.group("of-its-own")
    done = subprocess.run([sys.executable, "-c", IS_BORN, str(folder)], capture_output=True, check=False)
    assert done.returncode == 7, done.stderr
    assert f"0::/{tree.top.name}/{folder.name}\n".encode() in done.stdout


@needs_mount
def test_group_of_version_2_in_which_something_was_prepared_is_the_tasks_own(tree: Tree) -> None:
    cgroups = Cgroups(2, {"": str(tree.top)}, {})
    prepared = Preparation(cgroups, "1.0.1", Bounds())
    prepared.open()
    (door,) = prepared.doors
    subprocess.run(["sh", "-c", f"echo 0 > {door}; grep -q /1.0.1$ /proc/self/cgroup"], check=True)
    made = (tree.top / "1.0.1").stat().st_ino
    enclosure = Unified(cgroups, SimpleNamespace(tasks="0", supervisors="0"))
    enclosure.prepare("1.0.1", Bounds())
    assert (tree.top / "1.0.1").stat().st_ino == made
    enclosure.close()
    assert not (tree.top / "1.0.1").exists()


@needs_cgroups
def test_limits_are_written_again_to_a_group_that_was_prepared(grouped: Machine) -> None:
    """Not to be taken for a new one, which has none."""
    script = (
        "m=$(sed -n 's/.*:memory://p' /proc/self/cgroup); cat /sys/fs/cgroup/memory$m/memory.limit_in_bytes"
    )
    spec = grouped.spec("sh", "-c", script)
    prepared = grouped.runner.preparation(replace(spec, limits=Limits(memory_limit_mib=64)))
    prepared.open()
    grouped.runner.launch(spec)
    assert grouped.end_of(spec.attempt).exit_code == 0
    assert int(grouped.output(spec.attempt)) > 1 << 60, "the task itself has no limit"
