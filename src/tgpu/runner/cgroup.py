# ruff: noqa: PTH102, PTH103, PTH106, PTH123  pathlib is too heavy for a supervisor
"""A cgroup per task, where the machine allows it: a second way to find whoever belongs to it.

Best effort: whatever fails here, the task runs without. A task is gathered only when it has outlived its
first moments, because moving a process costs as much as starting one; the supervisor stays outside.
"""

import os
import signal
import time

from tgpu.runner import tree

ROUNDS = 5  # of gathering or killing what forks meanwhile
REMOVE_TRIES = 50
REMOVE_AGAIN_S = 0.01
_V1 = ("freezer", "pids", "systemd")


class Cgroups:
    """The folder under which each task of this cluster gets a cgroup of its own."""

    __slots__ = ("base",)

    def __init__(self, base: str) -> None:
        self.base = base

    def gather(self, attempt: str, supervisor: int) -> bool:
        """Moves all descendants of the supervisor into the attempt's cgroup."""
        path = f"{self.base}/{attempt}"
        moved: set[int] = set()
        try:
            os.mkdir(path)
        except FileExistsError:  # left by a crash
            pass
        except OSError:
            return False
        for _ in range(ROUNDS):
            fresh = [pid for pid in tree.descendants(supervisor) if pid not in moved]
            if not fresh:
                break
            moved.update(pid for pid in fresh if _write(f"{path}/cgroup.procs", str(pid)))
        return bool(moved)

    def kill(self, attempt: str) -> None:
        path = f"{self.base}/{attempt}"
        if _write(f"{path}/cgroup.kill", "1"):  # version 2: all at once, forks included
            return
        for _ in range(ROUNDS):
            members = _members(path)
            for pid in members:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    continue
            if not members:
                return

    def freeze(self, attempt: str) -> None:
        """Forks included; where the hierarchy has no freezer, signals must do."""
        path = f"{self.base}/{attempt}"
        if not _write(f"{path}/cgroup.freeze", "1"):
            _write(f"{path}/freezer.state", "FROZEN")

    def thaw(self, attempt: str) -> None:
        path = f"{self.base}/{attempt}"
        if not _write(f"{path}/cgroup.freeze", "0"):
            _write(f"{path}/freezer.state", "THAWED")

    def remove(self, attempt: str) -> None:
        for _ in range(REMOVE_TRIES):
            try:
                os.rmdir(f"{self.base}/{attempt}")
            except FileNotFoundError:
                return
            except OSError:  # its last member is still on its way out
                time.sleep(REMOVE_AGAIN_S)
            else:
                return

    def close(self) -> None:
        """Leaves nothing behind, unless a task still runs: a group that is not empty cannot be removed."""
        try:
            left = [entry.path for entry in os.scandir(self.base) if entry.is_dir()]
        except OSError:
            return
        for path in (*left, self.base):
            try:
                os.rmdir(path)
            except OSError:
                continue


def detect(cluster_id: str, proc: str = "/proc/self") -> Cgroups | None:
    """Version 2 if it is mounted and ours to write below, else one of version 1's hierarchies."""
    own = _own_groups(f"{proc}/cgroup")
    unified: list[str] = []
    legacy: list[tuple[int, str]] = []
    for mount, kind, options in _mounts(f"{proc}/mounts"):
        if kind == "cgroup2":
            unified.append(mount + own.get("", "/"))
        for rank, name in enumerate(_V1 if kind == "cgroup" else ()):
            if name in options or f"name={name}" in options:
                legacy.append((rank, mount + own.get(name, own.get(f"name={name}", "/"))))
    for parent in [*unified, *(path for _, path in sorted(legacy))]:
        base = f"{parent.rstrip('/')}/tgpu-{cluster_id}"
        try:
            os.makedirs(base, exist_ok=True)
        except OSError:
            continue
        if os.access(f"{base}/cgroup.procs", os.W_OK):
            return Cgroups(base)
        Cgroups(base).close()
    return None


def _own_groups(path: str) -> dict[str, str]:
    """Where this process is, by controller; the empty name is version 2."""
    groups: dict[str, str] = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            _, names, place = line.rstrip("\n").split(":", 2)
            groups.update(dict.fromkeys(names.split(","), place))
    return groups


def _mounts(path: str) -> list[tuple[str, str, list[str]]]:
    with open(path, encoding="utf-8") as file:
        fields = [line.split() for line in file]
    return [(words[1], words[2], words[3].split(",")) for words in fields]


def _write(path: str, text: str) -> bool:
    try:
        fd = os.open(path, os.O_WRONLY)
    except OSError:
        return False
    try:
        return os.write(fd, text.encode("ascii")) > 0
    except OSError:
        return False
    finally:
        os.close(fd)


def _members(path: str) -> list[int]:
    try:
        with open(f"{path}/cgroup.procs", encoding="ascii") as file:
            return [int(line) for line in file]
    except OSError:
        return []
