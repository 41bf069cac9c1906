# ruff: noqa: PTH112  as the rest of this package
"""Asks systemd for a part of the tree of version 2 that is ours: a scope with Delegate=yes.

It lasts as long as anybody is in it, so tasks outlive their agent there; the next agent joins it by its name.
"""

import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

SYSTEMD = "/run/systemd/system"
"""There while systemd runs."""
PATIENCE_S = 5.0
"""So long systemd may take for each answer, and to move us."""
LOOK_AGAIN_S = 0.01
_MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
_BUS = "busctl"


class NoAnswerError(Exception):
    """There is no use in asking for anything else."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One agent's; `name` ends with `.scope`."""

    name: str
    systemd: str = SYSTEMD
    patience_s: float = PATIENCE_S

    def join(self, leaf: str, own: Callable[[], str]) -> str:
        """Why the calling process is not in it; empty if it is. `leaf`: where in it those stand who have
        children with controllers; `own`: where the process is now."""
        if not os.path.isdir(self.systemd):
            return "systemd does not run here"
        try:
            return self._join_or_begin(leaf, str(os.getpid())) or self._moved(own)
        except NoAnswerError as error:
            return str(error)

    def _join_or_begin(self, leaf: str, pid: str) -> str:
        if not self._ask("AttachProcessesToUnit", "ssau", self.name, f"/{leaf}", "1", pid):
            return ""
        return self._ask("StartTransientUnit", "ssa(sv)a(sa(sv))", self.name, "fail", *_properties(pid))

    def _ask(self, method: str, *words: str) -> str:
        """What it says against it; empty if it does as it is told."""
        whose = [] if os.geteuid() == 0 else ["--user"]
        command = [_BUS, *whose, f"--timeout={self.patience_s:g}", "call", *_MANAGER, method, *words]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                env=_with_a_bus(),
                timeout=1.5 * self.patience_s,  # longer than its own
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoAnswerError(f"it has not answered within {self.patience_s:g} s") from None
        except OSError as error:
            raise NoAnswerError(f"to ask it takes {_BUS}: {error.strerror}") from None
        said = done.stderr.strip() or f"{_BUS} ended with {done.returncode}"
        return said.splitlines()[-1] if done.returncode else ""

    def _moved(self, own: Callable[[], str]) -> str:
        """It answers before it has done so."""
        deadline = time.monotonic() + self.patience_s
        while self.name not in own().split("/"):
            if time.monotonic() > deadline:
                return f"it has not moved us there within {self.patience_s:g} s"
            time.sleep(LOOK_AGAIN_S)
        return ""


def scope_name(cluster_id: str, records: str) -> str:
    """The same for every agent of one home and cluster, and no other's. `records`: its folder."""
    return f"tgpu-{cluster_id}-{hashlib.sha256(records.encode()).hexdigest()[:8]}.scope"


def _properties(pid: str) -> list[str]:
    """As busctl takes them: how many, then each with its type; and no further units."""
    properties = (
        ("Description", "s", "tgpu: an agent and its tasks"),
        ("PIDs", "au", "1", pid),
        ("Delegate", "b", "true"),
        ("CollectMode", "s", "inactive-or-failed"),  # else a failure would keep the name taken
    )
    return [str(len(properties)), *(word for each in properties for word in each), "0"]


def _with_a_bus() -> dict[str, str]:
    """Who came by `su` may not know where the bus of its own systemd is."""
    return {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **os.environ}
