"""Whose a process is: a task's of this cluster, or somebody's outside of it. Read from /proc.

A task's processes carry its name in their environment and, where tasks have cgroups, in the path of those.
One that has lost both is known by whom it descends from.
"""

import os
import pwd
import re
from pathlib import Path

from tgpu.domain.node import ForeignUse

PROC = Path("/proc")
NAMELESS = ""
_MOST_ANCESTORS = 64


class Owners:
    """Of one cluster: what another cluster's agent runs on this machine is foreign, too."""

    def __init__(self, cluster_id: str, proc: Path = PROC) -> None:
        self._proc = proc
        self._mark = f"TGPU_ATTEMPT_KEY={cluster_id}:".encode()
        self._group = re.compile(
            rf"tgpu-{re.escape(cluster_id)}/(?:[a-z_-]+/)?([0-9]+\.[0-9]+\.[0-9]+)(?:/|$)"
        )

    def attempt_of(self, pid: int) -> str | None:
        """The attempt that owns it; NAMELESS if it is one of this agent's and nobody knows which; None: it is
        foreign, or gone."""
        for _ in range(_MOST_ANCESTORS):
            if pid <= 1:
                break
            if pid == os.getpid():
                return NAMELESS
            attempt = self._by_group(pid) or self._by_mark(pid)
            if attempt is not None:
                return attempt
            pid = self._parent(pid)
        return None

    def foreign(self, pid: int, memory_mib: int | None) -> ForeignUse | None:
        """As whom to show it; None if it is a task's own, or out of sight (gone, or not of this machine's
        processes)."""
        if self.attempt_of(pid) is not None:
            return None
        try:
            user = _name(self._folder(pid).stat().st_uid)
            program = self._read(pid, "comm").decode(errors="replace").strip()
        except OSError:
            return None
        return ForeignUse(pid, user, program, memory_mib or 0)

    def _folder(self, pid: int) -> Path:
        return self._proc / str(pid)

    def _read(self, pid: int, name: str) -> bytes:
        return (self._folder(pid) / name).read_bytes()

    def _by_mark(self, pid: int) -> str | None:
        try:
            words = self._read(pid, "environ").split(b"\0")
        except OSError:  # another user's, which an agent that is not root may not read and does not run
            return None
        mark = next((word for word in words if word.startswith(self._mark)), None)
        return None if mark is None else mark.removeprefix(self._mark).decode(errors="replace")

    def _by_group(self, pid: int) -> str | None:
        try:
            match = self._group.search(self._read(pid, "cgroup").decode(errors="replace"))
        except OSError:
            return None
        return None if match is None else match[1]

    def _parent(self, pid: int) -> int:
        try:  # behind the name in parentheses, which may contain anything
            return int(self._read(pid, "stat").rpartition(b")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return 0


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
