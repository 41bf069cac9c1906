"""Disk usage of users' trees: what counts, with whose rights it is read, and what bounds it."""

import asyncio
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tgpu.agent.disk_meter import DiskMeter, OwnedFolder
from tgpu.runner import disk_usage
from tgpu.runner.disk_usage import Usage, Walk

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root reads with another user's rights")
NOBODY = pwd.getpwnam("nobody")
MIB = 1 << 20
FAR = 3600.0


def walked(folder: Path, **bounds: int) -> Usage:
    return Walk(time.monotonic() + FAR, **bounds).measure(os.open(folder, os.O_RDONLY))


def measured(folder: Path, uid: int, gid: int, walk_s: float = 60.0) -> Usage:
    return asyncio.run(DiskMeter(walk_s).measure([OwnedFolder(str(folder), uid, gid)]))[str(folder)]


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A folder of another user, in a place that this user cannot reach by its path."""
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    tmp_path.chmod(0o700)
    return folder


def as_nobody(folder: Path, script: str) -> None:
    subprocess.run(
        ["sh", "-ec", f"cd /proc/self/fd/9 && {script}"],
        check=True,
        preexec_fn=lambda: (os.dup2(os.open(folder, os.O_PATH), 9), os.setuid(NOBODY.pw_uid)),
        pass_fds=(9,),
    )


def test_size_is_what_files_take_on_disk_and_hard_links_count_once(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(bytes(MIB))
    alone = walked(tmp_path)
    assert MIB <= alone.size < MIB + 10 * 4096
    for number in range(9):
        (tmp_path / f"link{number}").hardlink_to(tmp_path / "a" / "b" / "file")
    linked = walked(tmp_path)
    assert linked.entries == alone.entries + 9
    assert abs(linked.size - alone.size) < 10
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert walked(tmp_path).size - linked.size <= 4096


def test_links_are_not_followed_and_empty_files_count(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(bytes(4 * MIB))
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "folder").symlink_to(outside)
    (inside / "file").symlink_to(outside / "big")
    (inside / "empty").touch()
    assert walked(inside)[:4] == (3 * 4096, 3, True, True)


def test_tree_deeper_than_a_path_reaches_is_measured_to_its_end(tmp_path: Path) -> None:
    above = os.open(tmp_path, os.O_RDONLY)
    for _ in range(60):
        os.mkdir("d" * 200, dir_fd=above)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = inner
    os.write(os.open("hidden", os.O_WRONLY | os.O_CREAT, dir_fd=above), bytes(MIB))
    os.close(above)
    usage = walked(tmp_path)
    assert (usage.entries, usage.is_whole, usage.is_countable) == (61, True, True)
    assert usage.size >= MIB


def test_walk_stops_at_its_bounds_of_entries_and_time(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / str(number)).touch()
    assert not walked(tmp_path, most_entries=100).is_countable
    assert walked(tmp_path, most_entries=100).entries == 101
    usage = Walk(time.monotonic() - 1).measure(os.open(tmp_path, os.O_RDONLY))
    assert (usage.is_whole, usage.is_countable) == (False, True)
    assert usage.entries < 3000


def test_walk_leaves_no_descriptor_open(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(20):
        folder /= "d" * 100
        folder.mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    walked(tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@needs_root
def test_folder_that_its_user_has_closed_is_measured(theirs: Path) -> None:
    as_nobody(theirs, "mkdir closed; head -c 1048576 /dev/zero > closed/file; chmod 0 closed/file closed .")
    usage = measured(theirs, NOBODY.pw_uid, NOBODY.pw_gid)
    assert usage.is_whole
    assert usage.size >= MIB


@needs_root
def test_measuring_process_has_the_users_rights_and_cannot_be_ended_by_the_user(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    child = os.fork()
    if child == 0:
        try:
            (tmp_path / "forbidden").touch()
            reader = os.open(go, os.O_RDWR)
            disk_usage.become(NOBODY.pw_uid, NOBODY.pw_gid)
            for deed in ((tmp_path / "forbidden").unlink, lambda: os.chown(tmp_path, 1, 1)):
                try:
                    deed()
                except PermissionError:
                    continue
                os._exit(1)
            os.write(reader, b"x")
            signal.pause()
        finally:
            os._exit(2)
    with go.open("rb") as file:
        assert file.read(1) == b"x", "it may change nothing"
    lines = Path(f"/proc/{child}/status").read_text().splitlines()
    status = {name: value for name, _, value in (line.partition(":") for line in lines)}
    assert status["Uid"].split()[3] == str(NOBODY.pw_uid), "on file systems"
    assert status["Groups"].strip() == ""
    assert int(status["CapEff"], 16) in (0, 1 << 2)
    assert int(status["CapPrm"], 16) in (0, 1 << 2)
    killed = subprocess.run(["kill", "-9", str(child)], user=NOBODY.pw_uid, capture_output=True, check=False)
    assert killed.returncode != 0
    os.kill(child, 9)
    os.waitpid(child, 0)


@needs_root
def test_tree_of_one_user_takes_no_time_from_that_of_another(theirs: Path, tmp_path: Path) -> None:
    as_nobody(theirs, "seq 3000 | xargs touch")
    own = tmp_path / "own"
    own.mkdir()
    (own / "file").write_bytes(bytes(MIB))
    folders = [OwnedFolder(str(theirs), NOBODY.pw_uid, NOBODY.pw_gid), OwnedFolder(str(own), 0, 0)]
    usages = asyncio.run(DiskMeter(walk_s=0.0).measure(folders))
    assert not usages[str(theirs)].is_whole
    assert usages[str(own)].size >= MIB


def test_folder_that_is_gone_or_a_link_is_not_measured(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    paths = [tmp_path / "none", tmp_path / "link", tmp_path]
    folders = [OwnedFolder(str(path), os.getuid(), os.getgid()) for path in paths]
    assert list(asyncio.run(DiskMeter().measure(folders))) == [str(tmp_path)]
    assert asyncio.run(DiskMeter().measure([])) == {}
