"""Whose a process is: a task's of this cluster, or somebody's outside of it. Read from /proc.

What a process says of itself proves nothing: anybody can set a variable, or name a cgroup of their own like a
task's. A task's processes descend from its supervisor, who adopts whoever is left behind; in a container they
share a namespace with its first process. What they say only tells, of those, which attempt is meant.
"""

import os
import pwd
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tgpu.domain.node import ForeignUse
from tgpu.runner.roots import Roots

PROC = Path("/proc")
NAMELESS = ""
_MOST_ANCESTORS = 64


class Owners:
    """Of one cluster: what another cluster's agent runs on this machine is foreign, too."""

    def __init__(
        self, cluster_id: str, roots: Callable[[], Roots | None] = lambda: None, proc: Path = PROC
    ) -> None:
        """`roots`: where the tasks here begin. As long as nobody knows, what a process says is believed."""
        self._roots = roots
        self._proc = proc
        self._mark = f"TGPU_ATTEMPT_KEY={cluster_id}:".encode()
        self._group = re.compile(
            rf"tgpu-{re.escape(cluster_id)}/(?:[a-z_-]+/)?([0-9]+\.[0-9]+\.[0-9]+)(?:/|$)"
        )

    def attempt_of(self, pid: int) -> str | None:
        """The attempt that owns it; NAMELESS if it is one of this agent's and nobody knows which; None: it is
        foreign, or gone."""
        roots, said, one = self._roots(), None, pid
        for _ in range(_MOST_ANCESTORS):
            if one == os.getpid():
                return said or NAMELESS
            if one <= 1:
                break
            if roots is not None and (attempt := roots.supervised_by(one)) is not None:
                return attempt
            said = said or self._by_group(one) or self._by_mark(one)
            one = self._parent(one)
        return said if roots is None else self._by_namespace(pid, said, roots.containers)

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

    def _by_namespace(self, pid: int, said: str | None, containers: Mapping[str, int]) -> str | None:
        """Of process numbers: all of a container share one, who was let in later, too. As long as the first
        process of a container is not known, it must do that one in some container says so."""
        own = self._namespace(pid)
        if own is None or own == self._namespace(os.getpid()):  # in no container at all
            return None
        for attempt, first in containers.items():
            if first and self._namespace(first) == own:
                return attempt
        return said if said is not None and containers.get(said) == 0 else None

    def _namespace(self, pid: int) -> str | None:
        try:
            return str((self._folder(pid) / "ns" / "pid").readlink())
        except OSError:  # gone, or another user's
            return None

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
