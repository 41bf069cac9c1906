# ruff: noqa: PTH102  pathlib is too heavy for a supervisor
"""Version 2: one group per task, into which it is born."""

import os

from tgpu.runner.cgroups import born, fence, files
from tgpu.runner.cgroups.bounds import Bounds, unified_texts
from tgpu.runner.cgroups.enclosure import Enclosure, Scores
from tgpu.runner.cgroups.groups import Cgroups, remove_group


class Unified(Enclosure):
    """A process that moves itself would hold up all forks of the machine; one that is born there does not."""

    by_fork = True

    def __init__(self, cgroups: Cgroups, scores: Scores) -> None:
        super().__init__(scores)
        self._cgroups = cgroups
        self._folder = ""
        self._fd = -1

    def prepare(self, attempt: str, bounds: Bounds) -> None:
        super().prepare(attempt, bounds)
        folder = f"{self._cgroups.base}/{attempt}"
        try:
            os.mkdir(folder)
        except FileExistsError:  # left by a crash
            self._cgroups.kill(attempt)
        except OSError:
            if self._barred():
                raise
            return
        self._folder = folder
        for controller, file, text in unified_texts(bounds):
            if controller in self._cgroups.bases:
                files.write(f"{folder}/{file}", text)
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if self._barred():
            self._fence()

    def _barred(self) -> list[str]:
        """What it must be kept from: nothing is started without, because the node says that it holds."""
        return (self.bounds.barred or []) if "devices" in self._cgroups.bases else []

    def _fence(self) -> None:
        try:
            fence.keep_from(self._fd, self._barred())
        except OSError as error:
            raise OSError(error.errno, f"the kernel fences off no GPUs: {error.strerror}") from error

    def fork(self) -> int:
        if self._fd < 0:
            return os.fork()
        try:
            return born.fork_into(self._fd)
        except OSError:  # an old kernel, or one that does not let us
            child = os.fork()
            if child == 0 and not files.write(f"{self._folder}/cgroup.procs", "0") and self._barred():
                os._exit(1)
            return child

    def keep(self) -> bool:
        return self._fd >= 0

    def oom_kills(self) -> int:
        return files.entry(f"{self._folder}/memory.events", "oom_kill") if self._folder else 0

    def was_at_limit(self) -> bool:
        return bool(self._folder) and files.entry(f"{self._folder}/memory.events", "oom") > 0

    def peak_bytes(self) -> int:
        return files.number(f"{self._folder}/memory.peak") if self._folder else 0

    def cpu_s(self) -> float:
        return files.entry(f"{self._folder}/cpu.stat", "usage_usec") / 1e6 if self._folder else 0.0

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            remove_group(self._folder)
        self._fd, self._folder = -1, ""

    def close(self) -> None:
        self.release()
