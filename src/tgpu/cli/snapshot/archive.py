"""A tree as one file that depends on nothing but what is in it: the same code has the same digest."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.snapshot.tree import OWN_IGNORE

if TYPE_CHECKING:
    from pathlib import Path

    from tgpu.cli.snapshot.tree import Tree

_MIB = 1 << 20
_IN_MEMORY = 16 * _MIB
_LARGEST = 3
_PLAIN, _PROGRAM = 0o644, 0o755


class TooLargeError(Exception):
    """It has more than it may; the text says what is large."""


@dataclass
class Archive:
    """To be closed by whoever has it."""

    file: IO[bytes]
    digest: str
    size: int
    names: frozenset[str]
    left_out: list[str]
    """Links that lead out of the tree."""

    def close(self) -> None:
        self.file.close()


def pack(tree: Tree, most_mb: int) -> Archive:
    """Raises TooLargeError."""
    _check_size(tree, most_mb)
    file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  the caller closes it
    names: set[str] = set()
    left_out: list[str] = []
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name in tree.files:
            if _add(tar, tree.root, name):
                names.add(name)
            else:
                left_out.append(name)
    size = file.tell()
    if size > most_mb * _MIB:
        file.close()
        raise TooLargeError(f"it has {size // _MIB} MiB even when it is packed, and may have {most_mb}")
    file.seek(0)
    found = hashlib.sha256()
    while piece := file.read(_MIB):
        found.update(piece)
    file.seek(0)
    return Archive(file, f"sha256:{found.hexdigest()}", size, frozenset(names), left_out)


def _add(tar: tarfile.TarFile, root: Path, name: str) -> bool:
    """False: it is a link that leads out of the tree, or nothing that can be copied."""
    path, about = root / name, tarfile.TarInfo(name)
    try:
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(path)  # noqa: PTH115  as it is written
            if not _stays_inside(name, target):
                return False
            about.type, about.linkname, about.mode = tarfile.SYMTYPE, target, 0o777
            tar.addfile(about)
            return True
        if not stat.S_ISREG(found.st_mode):
            return False
        data = path.read_bytes()
    except FileNotFoundError:  # deleted meanwhile
        return True
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}; name it in {OWN_IGNORE} to leave it out"
        ) from None
    about.size, about.mode = len(data), _PROGRAM if found.st_mode & stat.S_IXUSR else _PLAIN
    tar.addfile(about, io.BytesIO(data))
    return True


def _stays_inside(name: str, target: str) -> bool:
    if target.startswith("/"):
        return False
    at = os.path.normpath(os.path.join(os.path.dirname(name), target))  # noqa: PTH118, PTH120  text, not a file
    return at != ".." and not at.startswith("../")


def _check_size(tree: Tree, most_mb: int) -> None:
    sizes: dict[str, int] = {}
    for name in tree.files:
        try:
            sizes[name] = (tree.root / name).lstat().st_size
        except OSError:  # said when it is read
            continue
    total = sum(sizes.values())
    if total <= most_mb * _MIB:
        return
    largest = sorted(sizes, key=lambda name: -sizes[name])[:_LARGEST]
    said = ", ".join(f"{name} ({sizes[name] / _MIB:.1f} MiB)" for name in largest)
    raise TooLargeError(
        f"{tree.root} has {total // _MIB} MiB in {len(sizes):,} files, and a snapshot may have {most_mb}; "
        f"the largest are {said}: name in {OWN_IGNORE} what is not needed, or set TGPU_SNAPSHOT_MAX_MB"
    )
