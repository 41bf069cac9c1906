# ruff: noqa: PTH102  the kernel's folders are named as in the modules beside this one
"""Groups of an attempt before it has a supervisor: what is done for the task there counts as its own.

The agent makes them with the limits of the task, and starts a process in them that prepares something for it,
such as its snapshot. The supervisor finds them and starts the task in the same groups, so that CPU time and
memory of the preparation are part of what the attempt has used.
"""

import os

from tgpu.runner.cgroups import files
from tgpu.runner.cgroups.bounds import MIB, Bounds, legacy_texts, unified_texts
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.cgroups.legacy import ALWAYS


class Preparation:
    def __init__(self, cgroups: Cgroups, attempt: str, bounds: Bounds) -> None:
        self._cgroups, self._attempt, self._bounds = cgroups, attempt, bounds

    @property
    def memory_limit_mib(self) -> int:
        """0: none, or none that is enforced."""
        return self._bounds.memory_limit_mib if "memory" in self._cgroups.bases else 0

    def open(self) -> None:
        """Raises OSError: nothing is prepared outside of them."""
        for folder in self._folders():
            try:
                os.mkdir(folder)
            except FileExistsError:  # an agent before this one prepared it, too
                self._cgroups.kill(self._attempt)
            except FileNotFoundError:  # what it stands in was taken for forgotten
                os.makedirs(folder)  # noqa: PTH103  see above
        is_legacy = self._cgroups.version == 1
        for controller, file, text in (legacy_texts if is_legacy else unified_texts)(self._bounds):
            self._say(controller, file, text)
        if is_legacy and self._bounds.memory_limit_mib:
            for file in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"):
                self._say("memory", file, str(self._bounds.memory_limit_mib * MIB))

    @property
    def doors(self) -> list[str]:
        """The files to which a process of one thread writes 0 to step in."""
        name = "tasks" if self._cgroups.version == 1 else "cgroup.procs"
        return [f"{folder}/{name}" for folder in self._folders()]

    def oom_kills(self) -> int:
        """How many processes the kernel ended there because memory was used up."""
        name = "memory.oom_control" if self._cgroups.version == 1 else "memory.events"
        folder = self._cgroups.folder("memory", self._attempt)
        return files.entry(f"{folder}/{name}", "oom_kill") if folder else 0

    def remove(self) -> None:
        """The task will not start in them. What is still in there is ended."""
        self._cgroups.kill(self._attempt)
        self._cgroups.remove(self._attempt)

    def _folders(self) -> list[str]:
        """As the supervisor makes them for every task."""
        if self._cgroups.version != 1:
            return [f"{self._cgroups.base}/{self._attempt}"]
        found = (self._cgroups.folder(controller, self._attempt) for controller in ALWAYS)
        return list(dict.fromkeys(folder for folder in found if folder))

    def _say(self, controller: str, file: str, text: str) -> None:
        """What a kernel does not know (accounting of swap, say) cannot be said to it."""
        folder = self._cgroups.folder(controller, self._attempt)
        if folder:
            files.write(f"{folder}/{file}", text)
