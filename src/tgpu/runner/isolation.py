"""The agent's side of isolation: what the machine offers, and a task's limits as supervisors read them."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tgpu.observe.logs import logger
from tgpu.runner.abilities import Ability, abilities, why_no_tmp
from tgpu.runner.cgroups.bounds import Bounds
from tgpu.runner.cgroups.detect import Detected, detect
from tgpu.runner.cgroups.groups import Cgroups
from tgpu.runner.cgroups.preparation import Preparation
from tgpu.runner.cgroups.scope import Scope
from tgpu.runner.devices import barred, device_files, numbered_inside
from tgpu.runner.limits import Limits
from tgpu.runner.place import Packed
from tgpu.runner.process_numbers import kernel_pids

CLOSE_TRIES, CLOSE_AGAIN_S = 20, 0.05
OFF = "the setting cgroups is off"
_TRY_TMP = """
import sys
sys.path.append(sys.argv[1])
from tgpu.runner import private_tmp
print(private_tmp.why_not())
"""
_ROOT = Path(__file__).parents[2]


TASKS_PART, OF_PARTS = 7, 8
"""How much of the kernel's process numbers all tasks together may take: the rest is for everything else."""


class Isolation:
    """`complete` adds to a task's limits what only this node knows."""

    def __init__(
        self,
        cluster_id: str,
        *,
        cgroups: bool,
        private_tmp: bool,
        complete: Callable[[Limits], Limits],
        devices_dir: Path,
        scope: Scope | None = None,
    ) -> None:
        """`scope`: what to ask systemd for where it has given us nothing."""
        self._cluster_id = cluster_id
        self._scope = scope
        self._uses_cgroups = cgroups
        self._wants_tmp = private_tmp
        self._no_tmp = why_no_tmp(wanted=private_tmp)
        self._complete = complete
        self._device_files = device_files(devices_dir)
        self._found: Detected | None = None

    @property
    def cgroups(self) -> Cgroups | None:
        return None if self._found is None else self._found.cgroups

    def prepare(self) -> None:
        """Makes the folders for the tasks' groups, without those of tasks that are over. Only for the holder
        of the lock: others may be about to remove those folders. It may take systemd a while."""
        self._found = detect(self._cluster_id, scope=self._scope) if self._uses_cgroups else Detected(None)
        if self._found.why:
            logger("runner").warning("limits-not-enforced", why=self._found.why)
        if self.cgroups is not None:
            self.cgroups.tidy()
            self.cgroups.cap_pids(kernel_pids() * TASKS_PART // OF_PARTS)
        self._no_tmp = why_no_tmp(wanted=self._wants_tmp) or _tried_tmp()
        if self._wants_tmp and os.geteuid() == 0 and self._no_tmp:
            logger("runner").warning("no-private-tmp", why=self._no_tmp)

    async def close(self, lock: Path) -> None:
        """Leaves nothing behind. Who may still start a task, or ends just now, is waited for; a task that
        goes on has somebody who cleans up after it."""
        for _ in range(CLOSE_TRIES):
            if self.cgroups is None or self.cgroups.close_if_last(str(lock)):
                return
            await asyncio.sleep(CLOSE_AGAIN_S)

    def abilities(self) -> list[Ability]:
        """What tasks are held to here; nothing is known before `prepare`."""
        if self._found is None:
            return []
        off = "" if self._uses_cgroups else OFF
        return abilities(self._found, self._no_tmp, off)

    def packed_place(self) -> tuple[int, dict[str, str], dict[str, str], bool]:
        version, bases, homes = (0, {}, {}) if self.cgroups is None else self.cgroups.packed()
        return version, bases, homes, not self._no_tmp

    def visible(self, asked: Limits) -> dict[str, str]:
        """What a task has to be told of its GPUs otherwise than by their numbers on this node."""
        if asked.devices is None or self.cgroups is None or "devices" not in self.cgroups.bases:
            return {}
        if barred(self._device_files, self._complete(asked).minors) is None:
            return {}
        return {"CUDA_VISIBLE_DEVICES": numbered_inside(asked.devices)}

    def preparation(self, attempt: str, asked: Limits) -> Preparation | None:
        """Groups in which something is prepared for a task; None: there are no cgroups here."""
        if self.cgroups is None:
            return None
        return Preparation(self.cgroups, attempt, Bounds(*self.packed(asked)))

    def packed(self, asked: Limits) -> Packed:
        """In the order in which `Bounds` takes them."""
        limits = self._complete(asked)
        return (
            limits.cpu_milli,
            limits.cpu_limit_milli,
            limits.memory_limit_mib,
            limits.pids,
            barred(self._device_files, limits.minors),
            ",".join(map(str, limits.cpus)),
            limits.oom_score_adj,
            limits.user_pids,
            limits.disk_mib,
            limits.disk_limit_mib,
        )


def _tried_tmp() -> str:
    """Why tasks get no /tmp of their own here; empty: they do. A process of its own tries it: this one has
    threads, and one that has cannot be forked safely."""
    command = [sys.executable, "-I", "-S", "-c", _TRY_TMP, str(_ROOT)]
    tried = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return tried.stdout.strip() if tried.returncode == 0 else "it could not be tried"
