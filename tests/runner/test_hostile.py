"""Jobs that mean harm, or are merely broken: the agent, its records and the neighbours do not notice."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine, is_running, processes_of
from tests.runner.test_cgroup import needs_cgroups
from tgpu.domain.lifecycle import Cause
from tgpu.runner.limits import Limits

root_only = pytest.mark.skipif(os.getuid() != 0, reason="only root can run another user's job")


@pytest.fixture
def guarded(grouped: Machine, tmp_path: Path) -> Iterator[Machine]:
    """After each of them, an honest job still runs as if nothing had been."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    yield grouped
    end = grouped.run("sh", "-c", "exit 5")
    assert (end.cause, end.exit_code) == (Cause.EXITED, 5)


@needs_cgroups
def test_a_fork_bomb_is_contained_and_ended(guarded: Machine) -> None:
    bomb = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"
    attempt = guarded.launch("python3", "-c", bomb, limits=Limits(pids=40, cpu_limit_milli=500), grace_s=0)
    cgroups = guarded.runner._cgroups
    guarded.until(lambda: len(cgroups.members(attempt)) == 40)
    assert guarded.run("true").exit_code == 0, "a neighbour can still fork"
    guarded.runner.stop(attempt, Cause.CANCELLED, "")
    assert guarded.end_of(attempt).cause is Cause.CANCELLED
    assert processes_of(guarded, attempt) == []


@needs_cgroups
def test_a_hog_of_memory_does_not_hurt_its_neighbour(guarded: Machine) -> None:
    neighbour = guarded.shell("sleep 0.5; exit 4", limits=Limits(memory_limit_mib=64))
    hog = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    end = guarded.run("python3", "-c", hog, limits=Limits(memory_limit_mib=48))
    assert end.cause is Cause.OUT_OF_MEMORY
    assert guarded.end_of(neighbour).exit_code == 4


@needs_cgroups
def test_files_in_memory_that_one_left_are_not_charged_to_the_next(guarded: Machine) -> None:
    left = Path(f"/dev/shm/tgpu-test-{os.getpid()}")
    try:
        filling = ("dd", "if=/dev/zero", f"of={left}", "bs=1M", "count=40")
        assert guarded.run(*filling, limits=Limits(memory_limit_mib=64)).exit_code == 0
        honest = guarded.run("python3", "-c", "x = bytearray(30 << 20)", limits=Limits(memory_limit_mib=64))
        assert (honest.cause, honest.exit_code) == (Cause.EXITED, 0)
    finally:
        left.unlink(missing_ok=True)


@needs_cgroups
def test_output_without_end_fills_no_disk(guarded: Machine, tmp_path: Path) -> None:
    attempt = guarded.launch("yes", log_cap_bytes=1 << 20, grace_s=0, time_limit_s=1)
    assert guarded.end_of(attempt).cause is Cause.TIME_LIMIT
    kept = sum(path.stat().st_size for path in (tmp_path / "logs" / attempt).iterdir())
    assert kept <= (1 << 20) * 11 // 10  # with the time index


@needs_cgroups
def test_it_does_not_escape_by_forking_twice_and_ignoring_everything(
    guarded: Machine, tmp_path: Path
) -> None:
    program = f"""
import os, signal, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
os.environ.clear()
with open("{tmp_path}/stray", "w") as file:
    print(os.getpid(), file=file)
os.execve("/bin/sleep", ["sleep", "600"], {{}})
"""
    attempt = guarded.launch("python3", "-c", program)
    stray = int(guarded.file("stray"))
    end = guarded.end_of(attempt)
    assert (end.cause, end.exit_code) == (Cause.EXITED, 0)
    assert not is_running(stray)


@needs_cgroups
def test_one_that_closes_all_descriptors_ends_as_it_likes(guarded: Machine) -> None:
    program = "import os, time\nos.closerange(0, 4096)\ntime.sleep(0.2)\nos._exit(6)"
    end = guarded.run("python3", "-c", program)
    assert (end.cause, end.exit_code) == (Cause.EXITED, 6)


@needs_cgroups
def test_one_that_stops_itself_is_ended_by_its_time(guarded: Machine) -> None:
    end = guarded.run("sh", "-c", "kill -STOP $$", time_limit_s=1, grace_s=0)
    assert end.cause is Cause.TIME_LIMIT


@needs_cgroups
def test_a_line_of_100_mb_and_bytes_of_every_kind_are_kept_to_the_cap(guarded: Machine) -> None:
    script = "head -c 100000000 /dev/zero; head -c 65536 /dev/urandom; printf 'the end'"
    attempt = guarded.shell(script, limits=Limits(memory_limit_mib=64))
    assert guarded.end_of(attempt, 60).exit_code == 0
    kept = guarded.output(attempt, offset=-(1 << 20))
    assert len(kept) <= 1 << 20
    assert kept.endswith(b"the end")


@needs_cgroups
def test_one_that_kills_its_supervisor_under_its_own_users_agent_is_never_a_success(guarded: Machine) -> None:
    attempt = guarded.shell("kill -9 $PPID; exit 0")
    end = guarded.end_of(attempt)
    assert end.cause is Cause.SUPERVISOR_LOST
    assert end.exit_code is None
    assert processes_of(guarded, attempt) == []


@root_only
@needs_cgroups
def test_another_users_job_can_neither_kill_its_supervisor_nor_leave_its_groups(guarded: Machine) -> None:
    script = (
        "kill -9 $PPID && echo killed; "
        "for f in /sys/fs/cgroup/*/tasks /sys/fs/cgroup/cgroup.procs; do echo $$ > $f && echo left; done; "
        "echo -1000 > /proc/self/oom_score_adj && echo shielded; echo honest"
    )
    attempt = guarded.shell(script, user="nobody", limits=Limits(oom_score_adj=500))
    assert guarded.end_of(attempt).exit_code == 0
    assert guarded.output(attempt) == b"honest\n"


@needs_cgroups
def test_a_supervisor_killed_in_its_tasks_first_moments_leaves_nothing(guarded: Machine) -> None:
    attempt = guarded.shell("kill -9 $PPID; env -i setsid sleep 600 & wait")
    assert guarded.end_of(attempt).cause is Cause.SUPERVISOR_LOST
    guarded.until(lambda: not guarded.runner._cgroups.members(attempt))


@needs_cgroups
def test_the_processes_of_one_that_is_frozen_and_killed_are_gone(guarded: Machine) -> None:
    attempt = guarded.shell("for i in 1 2 3; do sleep 600 & done; wait", grace_s=30)
    guarded.start_of(attempt)
    cgroups = guarded.runner._cgroups
    cgroups.freeze(attempt)
    members = cgroups.members(attempt)
    guarded.runner.stop(attempt, Cause.CANCELLED, "", at_once=True)
    end = guarded.end_of(attempt)
    assert (end.cause, end.signal) == (Cause.CANCELLED, signal.SIGKILL)
    assert not [pid for pid in members if is_running(pid)]
