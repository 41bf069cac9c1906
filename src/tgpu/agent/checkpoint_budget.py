"""Budget of checkpoint folders: what all folders of one user may hold together on this node.

While a user's folders hold more, tasks of that user that write to theirs are ended, the largest first, as a
quota would end their writes. The folders themselves stay: they are work that was saved.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tgpu.agent.checkpoints import CheckpointWriter, NodeCheckpoints, owned
from tgpu.agent.disk_budgets import in_mib
from tgpu.agent.disk_meter import DiskMeter
from tgpu.domain.lifecycle import Cause
from tgpu.observe.disk_space import DiskSpace
from tgpu.observe.logs import logger
from tgpu.runner.disk_usage import Usage

_CLOCK_S = 1.0
"""How far the times of files may be behind this process's clock."""


class Writers(Protocol):
    """What runs tasks on this node."""

    def stop(self, attempt: str, cause: Cause, detail: str, *, at_once: bool = False) -> None: ...


class CheckpointBudget:
    def __init__(
        self,
        runners: Callable[[], Sequence[Writers]],
        checkpoints: NodeCheckpoints,
        meter: DiskMeter,
        space: DiskSpace,
        limit_bytes: Callable[[], int],
    ) -> None:
        """`limit_bytes`: of each user; 0: none."""
        self._runners, self._checkpoints, self._meter = runners, checkpoints, meter
        self._space, self._limit_bytes = space, limit_bytes
        self._changed_s: dict[str, float] = {}
        """By folder of users beyond their budget: its last change, as of the last check."""

    async def check(self) -> None:
        limit = await asyncio.to_thread(self._limit_bytes)
        if not limit:
            return
        by_user: defaultdict[Path, list[CheckpointWriter]] = defaultdict(list)
        for writer in self._checkpoints.writers():
            by_user[writer.folder.parent].append(writer)
        folders = await asyncio.to_thread(lambda: owned(_tasks(by_user)))
        usages = await self._meter.measure(folders)
        totals: defaultdict[Path, int] = defaultdict(int)
        for path, usage in usages.items():
            totals[Path(path).parent] += usage.size if usage.is_countable else limit + 1
        over = {user: total for user, total in totals.items() if total > limit}
        for user, total in over.items():
            largest = self._largest(by_user[user], usages)
            if largest is not None:
                await self._end(largest, user, total, limit)
        self._changed_s = {path: use.changed_s for path, use in usages.items() if Path(path).parent in over}

    def _largest(
        self, writers: Iterable[CheckpointWriter], usages: Mapping[str, Usage]
    ) -> CheckpointWriter | None:
        """Of those that have written since the last check, or since they began."""
        writing = {}
        for writer in writers:
            folder = str(writer.folder)
            begun_s = writer.begun_s - _CLOCK_S
            usage, since_s = usages.get(folder), self._changed_s.get(folder, begun_s)
            if usage is not None and usage.changed_s > since_s:
                writing[writer] = usage.size
        return max(writing, key=lambda writer: (writing[writer], writer.attempt), default=None)

    async def _end(self, writer: CheckpointWriter, user: Path, total: int, limit: int) -> None:
        """With its grace, unless the disk is short."""
        at_once = await asyncio.to_thread(self._space.shortage) is not None
        words = (
            f"its user's checkpoints held {in_mib(total)} of at most {limit >> 20} MiB (setting "
            f"user_checkpoints of its node); remove some below {user}"
        )
        logger("agent").warning(str(Cause.DISK_LIMIT), attempt=writer.attempt, detail=words)
        for runner in self._runners():
            runner.stop(writer.attempt, Cause.DISK_LIMIT, words, at_once=at_once)


def _tasks(users: Iterable[Path]) -> Iterable[Path]:
    """The folders of all tasks of these users, whether they run or not."""
    for user in users:
        with suppress(OSError):  # it is gone
            yield from (path for path in user.iterdir() if not path.is_symlink())
