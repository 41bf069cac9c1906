"""Folders in which tasks save their work: where each is, when it was last saved to, and when it may go."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tgpu.agent.disk_meter import DiskMeter, OwnedFolder
from tgpu.agent.user_folder import user_folder
from tgpu.observe.logs import logger
from tgpu.runner import checkpoint_folder, removing

PATIENCE_S = 0.5
"""How long a heartbeat waits for a look at the folders: they may be on a network drive that hangs."""
SWEEP_EVERY_S = 3600.0
STARTING_S = 600.0
"""How long an attempt that was launched may take until it runs."""
_TASK = re.compile(r"\d+\.\d+")


class Checkpoints(Protocol):
    def folder_of(self, attempt: str, user: str) -> str:
        """Empty: there is none."""
        ...

    async def look(self, running: Iterable[str]) -> Mapping[str, int]:
        """When the tasks of these attempts last saved their work, in milliseconds; of some of them."""
        ...


class NoCheckpoints:
    def folder_of(self, attempt: str, user: str) -> str:  # noqa: ARG002  named by the port
        return ""

    async def look(self, running: Iterable[str]) -> Mapping[str, int]:  # noqa: ARG002  named by the port
        return {}


class CheckpointWriter(NamedTuple):
    attempt: str
    folder: Path
    begun_s: float
    """When the attempt began to run here, as far as this agent knows."""


class NodeCheckpoints:
    """All that it knows is on disk: an agent that is started again goes on as if it had never been away."""

    def __init__(
        self,
        root: Path,
        keep_s: float,
        now_s: Callable[[], float] = time.time,
        meter: DiskMeter | None = None,
    ) -> None:
        self._root, self._keep_s, self._now_s = root, keep_s, now_s
        self._meter = meter or DiskMeter()
        self._folder: Path | None = None
        self._looking: asyncio.Future[dict[str, int]] | None = None
        self._known: dict[str, str] = {}
        """Where tasks have their folders, as far as this agent has started or found them."""
        self._running: set[str] | None = None
        """Tasks; None: not known yet."""
        self._begun_s: dict[str, float] = {}
        """By attempt: when it was launched, or found by this agent."""
        self._attempts: list[str] = []
        """What runs, as of the last look."""

    def use_cluster(self, cluster_id: str) -> None:
        """Jobs of two clusters may have one number."""
        self._folder = self._root / cluster_id

    def folder_of(self, attempt: str, user: str) -> str:
        if self._folder is None:
            return ""
        folder = self._known[_task_of(attempt)] = str(self._folder / user_folder(user) / _task_of(attempt))
        self._begun_s[attempt] = self._now_s()
        return folder

    def writers(self) -> list[CheckpointWriter]:
        """Tasks that run here, as of the last look, and their folders."""
        places = ((attempt, self._known.get(_task_of(attempt))) for attempt in self._attempts)
        return [
            CheckpointWriter(attempt, Path(folder), self._begun_s[attempt])
            for attempt, folder in places
            if folder
        ]

    async def look(self, running: Iterable[str]) -> Mapping[str, int]:
        """One look at a time: while a drive hangs there is no news, and nobody waits for it."""
        attempts = list(running)
        self._running = {_task_of(attempt) for attempt in attempts}
        self._known = {task: folder for task, folder in self._known.items() if task in self._running}
        self._remember(attempts, self._now_s())
        if self._looking is None and attempts and self._folder is not None:
            look = asyncio.to_thread(_saved, self._folder, attempts, self._known)
            self._looking = asyncio.ensure_future(look)
        if self._looking is None:
            return {}
        done, _ = await asyncio.wait([self._looking], timeout=PATIENCE_S)
        if not done:
            return {}
        self._looking = None
        return done.pop().result()

    def _remember(self, attempts: list[str], now_s: float) -> None:
        """When these began, and those that may just be starting."""
        begun = {name: at_s for name, at_s in self._begun_s.items() if now_s - at_s < STARTING_S}
        self._begun_s = begun | {name: self._begun_s.get(name, now_s) for name in attempts}
        self._attempts = attempts

    async def sweep_for_ever(self) -> None:
        log = logger("checkpoints")
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            try:
                removed = await self.sweep()
            except OSError as error:  # a disk in trouble must not end the agent
                log.warning("old checkpoints could not be removed", error=str(error))
            else:
                log.info("old checkpoints removed", tasks=removed)

    async def sweep(self) -> int:
        """Removes the folders in which nothing has changed for so long, unless their task runs here; returns
        of how many tasks. What runs here is marked as changed: where several nodes share the folders, the
        others do not know that it runs."""
        if self._folder is None or self._running is None:
            return 0
        found = await asyncio.to_thread(_kept, self._folder)
        for path in found:
            if path.name in self._running:
                with contextlib.suppress(FileNotFoundError):
                    await asyncio.to_thread(os.utime, path, follow_symlinks=False)
        idle = await asyncio.to_thread(owned, (path for path in found if path.name not in self._running))
        usages, before_s = await self._meter.measure(idle), self._now_s() - self._keep_s
        old = [path for path, usage in usages.items() if usage.is_whole and usage.newest_s < before_s]
        return sum([await asyncio.to_thread(removing.remove, path) for path in old])


def _task_of(attempt: str) -> str:
    return attempt.rpartition(".")[0]


def _saved(cluster: Path, attempts: Iterable[str], known: dict[str, str]) -> dict[str, int]:
    """Of a task from before this agent, `known` gets to know where its folder is."""
    users: list[str] | None = None
    found: dict[str, int] = {}
    for attempt in attempts:
        task = _task_of(attempt)
        if task not in known:
            users = _users(cluster) if users is None else users
            known[task] = _found(cluster, users, task)
        at_ms = checkpoint_folder.saved_ms(known[task])
        if at_ms is not None:
            found[attempt] = at_ms
    return found


def _users(cluster: Path) -> list[str]:
    """The names of users' folders."""
    try:
        return [path.name for path in cluster.iterdir() if not _TASK.fullmatch(path.name)]
    except OSError:
        return []


def _found(cluster: Path, users: Iterable[str], task: str) -> str:
    """Older versions had them beside the users' folders."""
    places = (cluster / user / task for user in users)
    return next((str(place) for place in places if place.is_dir()), str(cluster / task))


def _kept(folder: Path) -> list[Path]:
    """All that tasks have, also of older versions. Raises OSError."""
    if not folder.is_dir():
        return []
    of_users = [path for user in _users(folder) for path in _inside(folder / user)]
    found = [*folder.iterdir(), *of_users]
    return [path for path in found if _TASK.fullmatch(path.name) and not path.is_symlink()]


def owned(paths: Iterable[Path]) -> list[OwnedFolder]:
    """Without those that another node has removed."""
    found = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            about = path.lstat()
            found.append(OwnedFolder(str(path), about.st_uid, about.st_gid))
    return found


def _inside(of_user: Path) -> list[Path]:
    return list(of_user.iterdir()) if of_user.is_dir() and not of_user.is_symlink() else []
