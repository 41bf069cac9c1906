"""Private /tmp of a failed attempt: kept for its user alone, and swept by age and size."""

import asyncio
import os
import pwd
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tgpu.agent.disk_meter import DiskMeter
from tgpu.agent.failed_tmp import FailedTmp, fair_share
from tgpu.domain.lifecycle import Cause
from tgpu.runner import failed_tmp, private_tmp
from tgpu.runner.output import Stream

needs_root = pytest.mark.skipif(bool(private_tmp.why_not()), reason="this machine does not let us mount")
USER, OTHER = "nobody", "daemon"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Machine]:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o011)
    machine = Machine(tmp_path, private_tmp=True, failed_tmp=tmp_path / "failed-tmp" / "cluster")
    machine.open()
    yield machine
    machine.close()
    machine.loop.close()


def folders(machine: Machine) -> list[Path]:
    return list((machine.home / "records" / "tmp").iterdir())


def kept(machine: Machine) -> list[str]:
    above = machine.home / "failed-tmp" / "cluster"
    return sorted(path.name for path in above.iterdir()) if above.exists() else []


def may(user: str, *command: object) -> bool:
    done = subprocess.run(
        [str(word) for word in command], user=user, group=0, extra_groups=[], capture_output=True, check=False
    )
    return done.returncode == 0


@needs_root
def test_failed_attempt_keeps_its_tmp_for_its_user_alone(node: Machine) -> None:
    attempt = node.shell(
        "echo result > /tmp/result; chmod 666 /tmp/result; echo x > /dev/shm/a; exit 3", user=USER
    )
    end = node.end_of(attempt)
    place = Path(end.kept_tmp)
    assert place == node.home / "failed-tmp" / "cluster" / attempt / "tmp"
    assert [path.name for path in place.iterdir()] == ["result"]
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert place.owner() == USER
    assert may(USER, "cat", place / "result")
    assert not may(OTHER, "cat", place / "result")
    assert may(USER, "ls", place)
    for above in (place.parent, place.parent.parent):
        assert not may(USER, "ls", above), "the way there cannot be listed"
        assert not may(USER, "touch", above / "own"), "nor changed"
    node.until(lambda: folders(node) == [])


@needs_root
@pytest.mark.parametrize("limit_s", [None, 1])
def test_attempt_that_a_signal_or_its_time_limit_ends_keeps_its_tmp(
    node: Machine, limit_s: int | None
) -> None:
    script = (
        "touch /tmp/a; kill -9 $$" if limit_s is None else "trap 'exit 0' TERM; touch /tmp/a; sleep 60 & wait"
    )
    end = node.end_of(node.shell(script, time_limit_s=limit_s))
    assert end.cause is (Cause.SIGNALLED if limit_s is None else Cause.TIME_LIMIT)
    assert [path.name for path in Path(end.kept_tmp).iterdir()] == ["a"]


@needs_root
def test_nothing_is_kept_of_a_success_or_of_an_empty_tmp(node: Machine) -> None:
    assert node.end_of(node.shell("touch /tmp/a")).kept_tmp == ""
    assert node.end_of(node.shell("exit 1")).kept_tmp == ""
    assert kept(node) == []


@needs_root
@pytest.mark.parametrize("cause", [Cause.CANCELLED, Cause.PREEMPTED])
def test_nothing_is_kept_of_an_attempt_that_was_stopped(node: Machine, cause: Cause) -> None:
    attempt = node.shell("touch /tmp/a; echo up; sleep 600")
    node.until(lambda: b"up" in node.output(attempt))
    node.runner.stop(attempt, cause, "", at_once=True)
    assert node.end_of(attempt).kept_tmp == ""
    node.until(lambda: folders(node) == [])
    assert kept(node) == []


@needs_root
def test_job_with_shared_tmp_uses_the_machines_own(node: Machine) -> None:
    mine = Path(f"/tmp/tgpu-test-shared-{os.getpid()}")
    try:
        assert node.end_of(node.shell(f"touch {mine}", shared_tmp=True)).exit_code == 0
        assert mine.exists()
    finally:
        mine.unlink(missing_ok=True)


def test_user_that_cannot_be_looked_up_in_time_does_not_delay_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Nobody:
        uid, gid = 65534, 65533

    assert failed_tmp.owner(Nobody) == (65534, 65533)  # type: ignore[arg-type]
    monkeypatch.setattr(failed_tmp, "LOOK_UP_S", 0.01)
    with pytest.raises(OSError, match="could not be looked up"):
        failed_tmp.owner(lambda: time.sleep(600))  # type: ignore[arg-type, return-value, func-returns-value]


def filled(root: Path, name: str, size: int, at_s: float) -> Path:
    place = root / "cluster" / name / "tmp"
    (place / "inner").mkdir(parents=True)
    (place / "inner" / "file").write_bytes(bytes(size))
    os.utime(place.parent, (at_s, at_s))
    return place.parent


def swept(root: Path, budget_bytes: int, now_s: float = 0.0) -> int:
    """What is older than 50 s goes."""
    return asyncio.run(FailedTmp(root, 50, budget_bytes, DiskMeter(), now_s=lambda: now_s).sweep())


def test_sweep_removes_the_old_and_then_the_oldest_beyond_the_budget(tmp_path: Path) -> None:
    old, older, newer, newest = (
        filled(tmp_path, f"{number}.0.1", 1 << 20, number * 100.0) for number in range(1, 5)
    )
    assert swept(tmp_path, budget_bytes=5 << 19, now_s=200.0) == 2
    assert [path.exists() for path in (old, older, newer, newest)] == [False, False, True, True]


def test_one_that_exceeds_the_budget_alone_does_not_cost_others_theirs(tmp_path: Path) -> None:
    small, large = filled(tmp_path, "1.0.1", 1 << 10, 100.0), filled(tmp_path, "2.0.1", 1 << 21, 200.0)
    assert swept(tmp_path, budget_bytes=1 << 20) == 1
    assert (small.exists(), large.exists()) == (True, False)


def test_what_one_user_leaves_does_not_cost_another_user_theirs(tmp_path: Path) -> None:
    ours = filled(tmp_path, "1.0.1", 1 << 20, 100.0)
    theirs = [filled(tmp_path, f"{number}.0.1", 1 << 20, number * 100.0) for number in range(2, 6)]
    if os.geteuid() == 0:
        for path in theirs:
            os.chown(path / "tmp", pwd.getpwnam(USER).pw_uid, -1)
    assert swept(tmp_path, budget_bytes=7 << 19) == 2
    expected = [True, False, False, True, True] if os.geteuid() == 0 else [False, False, True, True, True]
    assert [path.exists() for path in (ours, *theirs)] == expected


@pytest.mark.parametrize(
    ("totals", "budget", "share"),
    [
        ([], 10, 10),
        ([3, 4], 10, 4),
        ([3, 9], 10, 7),
        ([9, 9, 9], 10, 3),
        ([1, 2, 9, 9], 13, 5),
        ([20], 10, 10),
    ],
)
def test_fair_share_gives_what_some_do_not_need_to_the_others(
    totals: list[int], budget: int, share: int
) -> None:
    assert fair_share(totals, budget) == share
    assert sum(min(total, share) for total in totals) <= budget


def test_sweep_follows_no_link_and_counts_what_is_nested_deep(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(bytes(1 << 20))
    linked = filled(tmp_path / "root", "1.0.1", 1, 100.0)
    (linked / "tmp" / "link").symlink_to(outside)
    deep = filled(tmp_path / "root", "2.0.1", 1, 200.0)
    above = os.open(deep / "tmp", os.O_RDONLY)
    for _ in range(25):  # deeper than a path reaches
        os.mkdir("d" * 200, dir_fd=above)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=above)
    os.write(file, bytes(1 << 20))
    os.close(file)
    os.close(above)
    os.utime(deep, (200.0, 200.0))
    assert swept(tmp_path / "root", budget_bytes=1 << 19) == 1
    assert (linked.exists(), deep.exists()) == (True, False)
    assert (outside / "big").exists()


def test_nothing_is_kept_while_the_disk_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    kept = tmp_path / "root" / "cluster" / "1.0.1" / "tmp"
    monkeypatch.setattr(Stream, "reserve_bytes", 1 << 60)
    with pytest.raises(OSError, match="the disk is full"):
        failed_tmp.keep(str(tmp_path / "folder"), str(kept.parents[1]), "1.0.1", os.getuid(), os.getgid())
    filled(tmp_path / "root", "1.0.1", 1, time.time())
    shortage: list[str | None] = [None]
    sweeper = FailedTmp(tmp_path / "root", 3600, 1 << 20, DiskMeter(), shortage=lambda: shortage[0])
    assert asyncio.run(sweeper.sweep()) == 0
    assert kept.exists()
    shortage[0] = "the disk is short"
    assert asyncio.run(sweeper.sweep()) == 1
    assert not kept.exists()


def test_sweep_of_a_root_that_is_not_there_removes_nothing(tmp_path: Path) -> None:
    assert swept(tmp_path / "none", budget_bytes=1) == 0
