"""Which paths of this node a container gets to see: what its user may see, below what the node allows."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tgpu.domain.container import Mount
from tgpu.runner.docker.as_user import Seen
from tgpu.runner.task import Account, Refusal

HOME = "~"
"""Stands for the home of the task's user."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The setting `mount_allow`, for one user."""

    folders: tuple[str, ...]

    @classmethod
    def of(cls, said: Sequence[str], account: Account) -> "Allowed":
        """By their real places: a home may be a link."""
        named = [account.home if path == HOME else path for path in said]
        return cls(tuple(os.path.realpath(path) for path in named if path.startswith("/") and path != "/"))

    def holds(self, path: str) -> bool:
        return any(PurePosixPath(path).is_relative_to(folder) for folder in self.folders)

    @property
    def words(self) -> str:
        return ", ".join(self.folders) or "nothing"


@dataclass(frozen=True, slots=True)
class Bound:
    """One mount as the engine is told of it."""

    source: str
    target: str
    read_only: bool


def wanted(mounts: Sequence[Mount], cwd: str, allowed: Allowed) -> list[Mount]:
    """What was asked for, and the working directory if it may be mounted and is not yet: never `/` itself."""
    if cwd == "/" or covers(mounts, cwd) or not allowed.holds(os.path.realpath(cwd)):
        return list(mounts)
    return [*mounts, Mount(cwd, cwd)]


def covers(mounts: Sequence[Mount], path: str) -> bool:
    """Whether this path is to be found in the container."""
    return any(PurePosixPath(path).is_relative_to(mount.target) for mount in mounts)


def checked(mount: Mount, seen: Seen, allowed: Allowed) -> str:
    """Where it really is; raises Refusal if the user cannot have it, or nobody may."""
    if mount.source in seen.refused:
        raise Refusal(f"cannot mount {mount.source}: {seen.refused[mount.source]} on this node")
    descriptor = seen.descriptors[mount.source]
    real = str(Path(f"/proc/self/fd/{descriptor}").readlink())
    if not allowed.holds(real):
        leads = "" if real == mount.source else f" it leads to {real}, and that"
        raise Refusal(
            f"cannot mount {mount.source}:{leads or ' it'} is not below what this node lets containers have "
            f"({allowed.words}); an administrator can add it to mount_allow"
        )
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise Refusal(f"cannot mount {mount.source}: it is neither a directory nor a file")
    return real
