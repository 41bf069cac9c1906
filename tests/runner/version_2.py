"""A real tree of cgroups of version 2, mounted for one test: without controllers, where version 1 has
them, but with everything else."""

import contextlib
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest


class Tree:
    """`top`: a group of the test's own, below which it may do as it likes."""

    def __init__(self, folder: Path) -> None:
        self._mount = folder / "tree"
        self.proc = folder / "proc"
        self.top = self._mount / f"tgpu-test-{uuid.uuid4().hex[:12]}"

    def open(self) -> None:
        self._mount.mkdir()
        subprocess.run(["mount", "-t", "cgroup2", "none", str(self._mount)], check=True)
        self.top.mkdir()
        self.proc.mkdir()
        (self.proc / "mounts").write_text(f"cgroup2 {self._mount} cgroup2 rw 0 0\n")
        (self.proc / "cgroup").symlink_to("/proc/self/cgroup")

    def group(self, name: str) -> Path:
        (self.top / name).mkdir(parents=True)
        return self.top / name

    def stand_in(self, group: Path) -> None:
        """What an agent there would read of itself."""
        (self.proc / "cgroup").unlink()
        (self.proc / "cgroup").write_text(f"0::/{group.relative_to(self._mount)}\n")

    def members(self) -> dict[str, list[int]]:
        """By group, of those that have any."""
        found = {
            str(file.parent.relative_to(self.top)): [int(pid) for pid in file.read_text().split()]
            for file in self.top.rglob("cgroup.procs")
        }
        return {name: pids for name, pids in found.items() if pids}

    def close(self) -> None:
        (self.top / "cgroup.kill").write_text("1")
        deadline = time.monotonic() + 60
        while self.members() and time.monotonic() < deadline:
            time.sleep(0.01)
        for folder, _, _ in os.walk(self.top, topdown=False):
            Path(folder).rmdir()
        subprocess.run(["umount", str(self._mount)], check=True)


def can_be_mounted() -> bool:
    words = ["unshare", "-m", "mount", "-t", "cgroup2", "none", "/mnt"]
    with contextlib.suppress(OSError):
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    return False


needs_mount = pytest.mark.skipif(not can_be_mounted(), reason="no cgroup2 can be mounted here")


def mounted(folder: Path) -> Iterator[Tree]:
    tree = Tree(folder)
    tree.open()
    try:
        yield tree
    finally:
        tree.close()
