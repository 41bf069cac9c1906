"""Which files belong to the code around a directory: Git's word, or a folder's without what it ignores."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.domain.snapshot import MAX_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pathspec import GitIgnoreSpec

OWN_IGNORE = ".tgpuignore"
_IGNORES = (".gitignore", OWN_IGNORE)
_NEVER = frozenset({".git", ".hg", ".svn"})
_GIT_S = 60


@dataclass(frozen=True)
class Tree:
    root: Path
    """Without links on the way to it."""
    files: list[str] = field(default_factory=list)
    """Relative to the root, in order."""
    commit: str | None = None
    dirty: bool = False


def git_root(cwd: Path) -> Path | None:
    """None: it is not in a Git tree."""
    if not any((above / ".git").exists() for above in (cwd, *cwd.parents)):
        return None  # most likely; and no program need be started to know
    said = _git(cwd, "rev-parse", "--show-toplevel")
    return None if said is None else Path(said.removesuffix("\n"))


def git_tree(root: Path) -> Tree:
    """What is committed, changed, or new and not ignored, as it is in the working tree now."""
    head = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    status = _git(root, "status", "--porcelain", "--untracked-files=normal")
    spec = _spec(root / OWN_IGNORE)
    files = [path for path in _in_git(root) if spec is None or not spec.match_file(path)]
    commit = None if head is None else head.strip()
    return Tree(root, sorted(set(files)), commit or None, dirty=bool(status) or not commit)


def _in_git(root: Path, below: str = "") -> Iterator[str]:
    listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    if listed is None:
        raise UsageError(f"git cannot list the files of {root}: see what `git -C {root} status` says")
    for name in filter(None, listed.split("\0")):
        path = root / name
        if path.is_dir() and not path.is_symlink():  # a submodule, or a repository within
            if (path / ".git").exists():
                yield from _in_git(path, f"{below}{name.rstrip('/')}/")
        elif os.path.lexists(path):  # else it is deleted and not committed yet
            yield below + name


def _git(where: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(where), "-c", "core.quotepath=off", *arguments],
            capture_output=True,
            check=False,
            timeout=_GIT_S,
        )
    except FileNotFoundError:
        raise UsageError(
            "this is a Git tree, but there is no git here: install it, or say --no-snapshot"
        ) from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"git did not answer within {_GIT_S} s in {where}") from None
    if b"dubious ownership" in done.stderr:
        raise UsageError(
            f"git does not trust {where}, which is somebody else's: git config --global --add "
            f"safe.directory {where}"
        )
    return os.fsdecode(done.stdout) if done.returncode == 0 else None


def plain_tree(root: Path) -> Tree:
    """A folder that is in no Git tree."""
    files: list[str] = []
    for name in _walk(root, "", []):
        files.append(name)
        if len(files) > MAX_FILES:
            raise UsageError(
                f"{root} has more than {MAX_FILES:,} files: name in {OWN_IGNORE} what the job does not need"
            )
    return Tree(root, sorted(files))


def _walk(root: Path, below: str, above: list[tuple[str, GitIgnoreSpec]]) -> Iterator[str]:
    here = [*above, *((below, spec) for name in _IGNORES if (spec := _spec(root / below / name)) is not None)]
    try:
        entries = sorted(os.scandir(root / below), key=lambda entry: entry.name)
    except OSError as error:
        raise UsageError(f"cannot read {root / below}: {error.strerror}") from None
    for entry in entries:
        name = f"{below}{entry.name}"
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _NEVER or _is_ignored(f"{name}/" if is_folder else name, here):
            continue
        if is_folder:
            yield from _walk(root, f"{name}/", here)
        elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
            yield name


def _is_ignored(name: str, specs: list[tuple[str, GitIgnoreSpec]]) -> bool:
    """The last word is that of the file deepest in the tree."""
    for below, spec in reversed(specs):
        said = spec.check_file(name[len(below) :]).include
        if said is not None:
            return said
    return False


def _spec(path: Path) -> GitIgnoreSpec | None:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    from pathspec import GitIgnoreSpec  # noqa: PLC0415  only who has such a file

    return GitIgnoreSpec.from_lines(lines)
