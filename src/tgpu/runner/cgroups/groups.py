# ruff: noqa: PTH106  pathlib is too heavy for a supervisor
"""The groups of one cluster's tasks on this machine, each named by its attempt."""

import os
import time

from tgpu.runner import process_signals
from tgpu.runner.cgroups import files
from tgpu.runner.cgroups.bounds import MIB
from tgpu.runner.light import signal

ROUNDS = 5  # of killing what forks meanwhile
REMOVE_TRIES = 50
REMOVE_AGAIN_S = 0.01
TRACKERS = ("freezer", "pids", "memory", "cpu", "")
"""Where members are counted: the first of these that there is."""


class Cgroups:
    """Below which folder each controller has the tasks' groups, and where this agent itself is.

    Of version 2 every name leads to the same folder, and the empty name is always there.
    """

    __slots__ = ("_ways_home", "bases", "homes", "version")

    def __init__(self, version: int, bases: dict[str, str], homes: dict[str, str]) -> None:
        self.version = version
        self.bases = bases
        self.homes = homes
        self._ways_home: dict[str, int] = {}

    def open_ways_home(self) -> None:
        """Once, before supervisors are forked: each of them would have to do it."""
        if self.version == 1:
            for home in self.homes.values():
                self.way_home(home)

    def way_home(self, home: str) -> int:
        if home not in self._ways_home:
            self._ways_home[home] = door(home)
        return self._ways_home[home]

    def packed(self) -> tuple[int, dict[str, str], dict[str, str]]:
        """What a supervisor needs to have the same."""
        return self.version, self.bases, self.homes

    @property
    def base(self) -> str:
        """The folder whose groups tell who belongs to a task."""
        return next(self.bases[name] for name in TRACKERS if name in self.bases)

    def folders(self, attempt: str) -> list[str]:
        return [f"{base}/{attempt}" for base in dict.fromkeys(self.bases.values())]

    def folder(self, controller: str, attempt: str) -> str:
        """Empty if that controller is not ours to use."""
        base = self.bases.get(controller)
        return f"{base}/{attempt}" if base else ""

    def members(self, attempt: str) -> list[int]:
        return files.members(f"{self.base}/{attempt}")

    def kill(self, attempt: str) -> None:
        if self.version == 1:
            self._kill_frozen(attempt)
        else:
            files.write(f"{self.base}/{attempt}/cgroup.kill", "1")  # all at once, forks included
        for _ in range(ROUNDS):
            if not _kill(f"{self.base}/{attempt}"):
                return

    def _kill_frozen(self, attempt: str) -> None:
        """Version 1: what is frozen cannot fork; it dies when it is thawed. Whoever stood in that group
        itself could never thaw it again."""
        if os.getpid() in self.members(attempt):
            raise RuntimeError(f"the cgroup of {attempt} would be frozen from within")
        self.freeze(attempt)
        _kill(f"{self.base}/{attempt}")
        self.thaw(attempt)

    def freeze(self, attempt: str) -> None:
        """Forks included; where there is no freezer, signals must do."""
        self._freeze(attempt, "FROZEN", "1")

    def thaw(self, attempt: str) -> None:
        self._freeze(attempt, "THAWED", "0")

    def _freeze(self, attempt: str, legacy: str, unified: str) -> None:
        if self.version == 1:
            files.write(f"{self.folder('freezer', attempt)}/freezer.state", legacy)
        else:
            files.write(f"{self.base}/{attempt}/cgroup.freeze", unified)

    def memory_mib(self, attempt: str) -> int:
        """What it holds that cannot be read again from a disk; 0 if nobody counts."""
        folder = self.folder("memory", attempt)
        if not folder:
            return 0
        names = ("total_rss", "total_shmem") if self.version == 1 else ("anon", "shmem")
        return sum(files.entry(f"{folder}/memory.stat", name) for name in names) // MIB

    def remove(self, attempt: str) -> None:
        for folder in self.folders(attempt):
            remove_group(folder)

    def cap_pids(self, most: int) -> None:
        """Of all tasks together."""
        base = self.bases.get("pids")
        if base:
            files.write(f"{base}/pids.max", str(most))

    def tidy(self) -> None:
        """Removes the groups of tasks that are over; one that is not empty cannot be removed. Only for the
        holder of the lock: a group is empty, too, just before its task is started."""
        for base in dict.fromkeys(self.bases.values()):
            for name in _children(base):
                _remove_empty(f"{base}/{name}")

    def close(self) -> None:
        """Leaves nothing behind, unless a task still runs. Only for the holder of the lock, like `tidy`."""
        self.tidy()
        for base in dict.fromkeys(self.bases.values()):
            _remove_empty(base)

    def close_if_last(self, lock: str) -> bool:
        """False: somebody who may start a task holds the lock."""
        import fcntl  # noqa: PLC0415  most supervisors never need it

        held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            self.close()
            return True
        finally:
            os.close(held)


def door(folder: str) -> int:
    """Into a group of version 1. A single thread that moves itself waits for nobody: `tasks`, and 0 for
    whoever writes."""
    return os.open(f"{folder}/tasks", os.O_WRONLY | os.O_CLOEXEC)


def remove_group(folder: str) -> None:
    for _ in range(REMOVE_TRIES):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return
        except OSError:  # its last member is still on its way out
            time.sleep(REMOVE_AGAIN_S)
        else:
            return


def _remove_empty(folder: str) -> None:
    try:
        os.rmdir(folder)
    except OSError:
        return


def _children(base: str) -> list[str]:
    try:
        with os.scandir(base) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    except OSError:
        return []


def _kill(folder: str) -> bool:
    """One pass of SIGKILL. Whether there was any member."""
    pids = files.members(folder)
    for pid in pids:
        process_signals.send(pid, signal.SIGKILL, lambda pid: _is_member(pid, folder))
    return bool(pids)


def _is_member(pid: int, folder: str) -> bool:
    """By the last two names of its place: what is above them depends on who looks."""
    above, _, name = folder.rpartition("/")
    place = f"/{above.rpartition('/')[2]}/{name}"
    return any(line.endswith(place) for line in files.read(f"/proc/{pid}/cgroup").splitlines())
