# ruff: noqa: PTH102, PTH103, PTH104  pathlib is too heavy for a supervisor
"""Version 1: a group per controller.

To make and remove a group costs more than to use it. So a supervisor keeps its groups for its next task, as
long as its tasks are over at once: they get another name, and only what differs is written anew. Those of a
task that lasts are removed at its end.
"""

import errno
import os

from tgpu.runner.cgroups import files
from tgpu.runner.cgroups.bounds import MIB, Bounds, legacy_texts
from tgpu.runner.cgroups.enclosure import Enclosure, Scores
from tgpu.runner.cgroups.groups import Cgroups, door, remove_group

AS_BORN = {
    "cpu.shares": "1024",
    "cpu.cfs_period_us": "100000",
    "cpu.cfs_quota_us": "-1",
    "pids.max": "max",
    "memory.limit_in_bytes": "-1",
    "memory.memsw.limit_in_bytes": "-1",
}
"""What a new group says of itself, which need not be written."""
ALWAYS = ("freezer", "cpu", "cpuacct", "memory", "pids")
NO_LIMIT = "-1"
CHARGED_AT_ONCE = MIB
"""The kernel counts memory in small lots for each CPU, so that a limit may be met a little below it."""
LEFT_OVER_BYTES = 16 * MIB
"""A group in which tasks before have left more than this (files in a shared memory file system, say) is not
given to one that has a limit."""
_NO_FENCE = "the kernel fences off no GPUs"


class Legacy(Enclosure):
    """The groups of one supervisor's tasks, each with a door in and the way home."""

    def __init__(self, cgroups: Cgroups, scores: Scores) -> None:
        super().__init__(scores)
        self._cgroups = cgroups
        self._attempt = ""
        """Whose name the groups bear."""
        self._lasts = False
        self._was_used = False
        """What the groups have counted is partly that of tasks before."""
        self._doors: dict[str, tuple[int, int]] = {}
        """By base; controllers that are mounted together have one."""
        self._written = dict(AS_BORN)
        self._barred: set[str] = set()
        self._kills_before = 0

    def prepare(self, attempt: str, bounds: Bounds) -> None:
        super().prepare(attempt, bounds)
        if bounds.memory_limit_mib and self._left_over() > LEFT_OVER_BYTES:
            self.close()
        self._rename(attempt)
        for controller in ALWAYS:
            self._have(controller)
        for controller, file, text in legacy_texts(bounds):
            self._say(controller, file, text)
        self._limit_memory(bounds.memory_limit_mib)
        self._fence(set(bounds.barred or ()))
        self._pin(bounds.cpus)

    def enter(self) -> None:
        super().enter()
        if not self._step_in():
            self._step_out()  # of those that are still there: they cannot be removed with us in them
            self.close()  # somebody took them for forgotten: an agent that ended just now
            self.prepare(self._attempt, self.bounds)
            if not self._step_in() and self._barred:
                raise OSError(errno.EPERM, _NO_FENCE)

    def _step_in(self) -> bool:
        return all(_step(inward) for inward, _ in self._doors.values())

    def _step_out(self) -> None:
        for _, outward in self._doors.values():
            _step(outward)

    def leave(self) -> None:
        self._step_out()
        super().leave()

    def keep(self) -> bool:
        self._lasts = True
        if self._was_used:
            self._forget_peak()
            files.write(f"{self._at('cpuacct')}/cpuacct.usage", "0")
        return bool(self._doors)

    def oom_kills(self) -> int:
        return self._kills() - self._kills_before

    def was_at_limit(self) -> bool:
        limit = self.bounds.memory_limit_mib * MIB
        return bool(limit) and self.peak_bytes() >= limit - CHARGED_AT_ONCE

    def peak_bytes(self) -> int:
        return files.number(f"{self._at('memory')}/memory.max_usage_in_bytes")

    def cpu_s(self) -> float:
        return files.number(f"{self._at('cpuacct')}/cpuacct.usage") / 1e9

    def release(self) -> None:
        if self._lasts:
            self.close()
            return
        self._was_used = True
        if self.bounds.memory_limit_mib:
            self._kills_before = self._kills()
            self._forget_peak()

    def close(self) -> None:
        self._close(dict.fromkeys(self._doors, self._attempt))

    def _close(self, names: dict[str, str]) -> None:
        """`names`: by base, which name the group bears."""
        for base, (inward, _) in self._doors.items():
            os.close(inward)
            remove_group(f"{base}/{names[base]}")
        self._doors.clear()
        self._written = dict(AS_BORN)
        self._barred.clear()
        self._was_used = False
        self._kills_before = 0

    def _rename(self, attempt: str) -> None:
        """Before the task is there: a program may keep in mind where it found itself."""
        before, self._attempt = self._attempt, attempt
        names = dict.fromkeys(self._doors, before)
        try:
            for base in self._doors:
                os.rename(f"{base}/{before}", f"{base}/{attempt}")
                names[base] = attempt
        except OSError:  # removed as orphans meanwhile, or prepared under that name
            self._close(names)

    def _at(self, controller: str) -> str:
        return self._cgroups.folder(controller, self._attempt)

    def _have(self, controller: str) -> bool:
        base = self._cgroups.bases.get(controller)
        if base is None or base in self._doors:
            return base is not None
        folder, home = f"{base}/{self._attempt}", self._cgroups.homes[controller]
        try:
            if not self._is_new(folder, controller):
                self._written.clear()  # its content is unknown
        except OSError:
            return False
        if controller == "cpuset":  # a new one is empty, and nobody can enter that
            for name in ("cpuset.mems", "cpuset.cpus"):
                files.write(f"{folder}/{name}", files.read(f"{home}/{name}").strip())
        self._doors[base] = (door(folder), self._cgroups.way_home(home))
        return True

    def _is_new(self, folder: str, controller: str) -> bool:
        """Makes it. False: it was there, and what was prepared for the task in it counts further."""
        try:
            os.mkdir(folder)
        except FileNotFoundError:  # what it stands in was taken for forgotten
            os.makedirs(folder)
        except FileExistsError:
            if controller in ALWAYS and not files.members(folder):
                return False
            self._cgroups.kill(self._attempt)  # left by a crash
            remove_group(folder)
            os.mkdir(folder)
        return True

    def _say(self, controller: str, file: str, text: str) -> bool:
        """Only what is not said already."""
        if self._written.get(file) == text:
            return True
        if self._cgroups.bases.get(controller) not in self._doors:
            return False
        if not files.write(f"{self._at(controller)}/{file}", text):
            return False
        self._written[file] = text
        return True

    def _limit_memory(self, limit_mib: int) -> None:
        """Memory with swap is never less than memory alone: so that limit is lifted before and set after."""
        alone, with_swap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
        text = str(limit_mib * MIB) if limit_mib else NO_LIMIT
        if self._written.get(alone) == text:
            return
        self._say("memory", with_swap, NO_LIMIT)
        self._say("memory", alone, text)
        self._say("memory", with_swap, text)

    def _fence(self, barred: set[str]) -> None:
        """Nothing is started without, because the node says that it holds."""
        if barred == self._barred or "devices" not in self._cgroups.bases:
            return
        folder, is_there = self._at("devices"), self._have("devices")
        for device in self._barred - barred:
            files.write(f"{folder}/devices.allow", f"c {device} rwm")
        denied = (
            files.write(f"{folder}/devices.deny", f"c {device} rwm") for device in barred - self._barred
        )
        if not (is_there and all(denied)):
            self.close()  # nobody knows any more what it is kept from
            raise OSError(errno.EPERM, _NO_FENCE)
        self._barred = barred

    def _pin(self, cpus: str) -> None:
        if cpus and self._have("cpuset"):
            self._say("cpuset", "cpuset.cpus", cpus)
        elif self._cgroups.bases.get("cpuset") in self._doors:
            every = files.read(f"{self._cgroups.homes['cpuset']}/cpuset.cpus").strip()
            self._say("cpuset", "cpuset.cpus", every)

    def _forget_peak(self) -> None:
        files.write(f"{self._at('memory')}/memory.max_usage_in_bytes", "0")

    def _left_over(self) -> int:
        return files.number(f"{self._at('memory')}/memory.usage_in_bytes") if self._doors else 0

    def _kills(self) -> int:
        return files.entry(f"{self._at('memory')}/memory.oom_control", "oom_kill")


def _step(door: int) -> bool:
    try:
        os.write(door, b"0")
    except OSError:
        return False
    return True
