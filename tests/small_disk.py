"""A filesystem of a few megabytes that tests can fill and free; only root can mount one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")


@dataclass(frozen=True)
class SmallDisk:
    path: Path

    @property
    def free(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """All of it, but for so many bytes."""
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while self.free > leave:
                file.write(bytes(min(self.free - leave, 1 << 16)))

    def empty(self) -> None:
        self._filler.unlink()

    def use_up_inodes(self) -> None:
        """A folder takes no block of this filesystem, but an inode."""
        found = os.statvfs(self.path)
        self._remount(found.f_files - found.f_ffree)

    def give_back_inodes(self) -> None:
        self._remount(0)

    def _remount(self, inodes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,nr_inodes={inodes}", str(self.path)], check=True)

    @property
    def _filler(self) -> Path:
        return self.path / "filler"


def mounted(folder: Path, size: str) -> Iterator[SmallDisk]:
    """To be yielded from by a fixture."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tgpu", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    yield from mounted(tmp_path / "disk", "8m")
