"""A folder is removed whole, whatever its user has made of it, and nothing else is."""

import os
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.runner.test_root_stays_outside import in_child
from tgpu.runner import beneath, namespaces, private_tmp, removing
from tgpu.runner.removing import remove

NEST = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(1100):
    os.mkdir("deep")
    os.chdir("deep")
os.mkfifo("pipe")
"""
"""Deeper than a path, a stack of calls and a table of open files reach."""


@pytest.fixture
def quick() -> Iterator[Path]:
    """In memory: so many folders take a disk its time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)


def nest(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", NEST, str(folder)], check=True)


def test_what_is_deeper_than_any_path_is_removed(quick: Path) -> None:
    folder = quick / "copy"
    folder.mkdir()
    nest(folder)
    (folder / "locked").mkdir(mode=0)
    (folder / "link").symlink_to(quick)
    (quick / "kept").touch()
    assert remove(str(folder))
    assert [path.name for path in quick.iterdir()] == ["kept"]
    assert remove(str(folder)), "it is gone"


def test_memory_does_not_grow_with_the_number_of_files_and_folders(
    quick: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = quick / "copy"
    (folder / "inner").mkdir(parents=True)
    for number in range(6_000):
        (folder / "inner" / f"{number:0200}").touch()
    for number in range(200):
        (folder / "inner" / f"folder{number}" / "below").mkdir(parents=True)
    monkeypatch.setattr(removing, "_MOST_NAMES", 50)
    tracemalloc.start()
    try:
        assert remove(str(folder))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not folder.exists()
    assert peak < 1 << 19, "all names together have 1.2 MB"


def test_one_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert not remove(str(tmp_path / "link"))
    assert (tmp_path / "kept").is_dir()


@pytest.mark.skipif(bool(private_tmp.why_not()), reason="this machine does not let us mount")
def test_what_is_mounted_in_it_stays_though_it_is_of_the_same_file_system(tmp_path: Path) -> None:
    folder, kept = tmp_path / "copy", tmp_path / "kept"
    for path in (folder / "mounted", kept):
        path.mkdir(parents=True)
    (kept / "file").touch()
    (folder / "own").touch()

    def remove_it() -> bool:
        namespaces.unshare()
        namespaces.mount(str(kept), str(folder / "mounted"), None, 4096)
        return remove(str(folder))

    assert in_child(remove_it) == "False"
    assert [path.name for path in kept.iterdir()] == ["file"]
    assert [path.name for path in folder.iterdir()] == ["mounted"]


def test_no_link_is_followed_on_the_way_to_a_folder(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    top = os.open(tmp_path, os.O_RDONLY)
    os.close(beneath.open_folder("real/inner", top))
    for name in ("link/inner", "link", "..", "/etc"):
        with pytest.raises(OSError, match=r"symbolic links|cross-device"):
            beneath.open_folder(name, top)
    os.close(top)


def test_root_removes_nothing_through_a_link_that_comes_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is its user's also while root removes it: what was listed can be a link a moment later."""
    precious, copy = tmp_path / "etc", tmp_path / "copy"
    inner = copy / "inner"
    for folder in (precious, inner / "passwd.d"):
        folder.mkdir(parents=True)
    for folder in (precious, inner):
        (folder / "passwd").write_text("kept")
    (precious / "passwd.d").mkdir()
    precious.chmod(0o500)
    unlink = os.unlink

    def swapped() -> None:
        if inner.is_dir() and not inner.is_symlink():
            inner.rename(copy / "away")
            inner.symlink_to(precious)

    def and_swapped(path: str, *, dir_fd: int) -> None:
        swapped()
        unlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", and_swapped)
    remove(str(copy))
    monkeypatch.undo()
    assert (precious / "passwd").read_text() == "kept"
    assert (precious / "passwd.d").is_dir()
    assert stat.S_IMODE(precious.stat().st_mode) == 0o500
    assert remove(str(copy)), "the next one finds the rest"


def test_what_a_task_has_nested_without_end_harms_no_agent(quick: Path) -> None:
    machine = Machine(quick)
    left = quick / "records" / "tmp"
    (left / "7.0.1").mkdir(parents=True)  # as a supervisor leaves it that was killed
    nest(left / "7.0.1")
    machine.open()
    machine.until(lambda: not list(left.iterdir()))
    machine.close()
    machine.loop.close()
