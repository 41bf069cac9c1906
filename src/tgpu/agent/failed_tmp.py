"""Sweep of the private /tmp directories that are kept after failures, by age and by size.

The node has one budget for all of them. If they exceed it, each user keeps an equal part of it: what one user
leaves costs no other user theirs.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from tgpu.agent.disk_meter import DiskMeter, OwnedFolder
from tgpu.observe.logs import logger
from tgpu.runner import failed_tmp, removing
from tgpu.runner.failed_tmp import Kept

SWEEP_EVERY_S = 60.0


class FailedTmp:
    """All that it knows is on disk: an agent that is started again goes on sweeping what is there."""

    def __init__(
        self,
        root: Path,
        keep_s: int,
        budget_bytes: int,
        meter: DiskMeter,
        *,
        shortage: Callable[[], str | None] = lambda: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`shortage`: of disk space, in words; then nothing is kept."""
        self._root, self._keep_s, self._budget_bytes = root, keep_s, budget_bytes
        self._meter, self._shortage, self._now_s = meter, shortage, now_s
        self._sizes: dict[str, tuple[Kept, int]] = {}
        """By attempt, as of the last sweep."""

    def folder_of(self, cluster_id: str) -> Path | None:
        """None: nothing is kept."""
        return self._root / cluster_id if self._keep_s and self._budget_bytes else None

    async def sweep_forever(self) -> None:
        log = logger("failed-tmp")
        while True:
            try:
                removed = await self.sweep()
            except OSError as error:  # a disk in trouble must not end the agent
                log.warning("kept /tmp directories could not be removed", error=str(error))
            else:
                if removed:
                    log.info("kept /tmp directories removed", attempts=removed)
            await asyncio.sleep(SWEEP_EVERY_S)

    async def sweep(self) -> int:
        """How many were removed."""
        found = await asyncio.to_thread(failed_tmp.kept, str(self._root))
        before_s = self._now_s() - self._keep_s
        if self._shortage() is not None:
            return await self._remove(found)
        young = [one for one in found if one.at_s >= before_s]
        sizes = await self._measured(young)
        self._sizes = {one.attempt: (one, size) for one, size in sizes.items()}
        return await self._remove([*(set(found) - set(young)), *beyond_budget(sizes, self._budget_bytes)])

    def bytes_of(self, task: str) -> int:
        """What earlier attempts of that task have left, as of the last sweep."""
        return sum(size for _, size in self._of_task(task))

    async def remove_of(self, task: str) -> None:
        """Makes room for the next attempt of that task."""
        await self._remove([one for one, _ in self._of_task(task)])

    def _of_task(self, task: str) -> list[tuple[Kept, int]]:
        return [known for attempt, known in self._sizes.items() if attempt.rpartition(".")[0] == task]

    async def _measured(self, kept: Iterable[Kept]) -> dict[Kept, int]:
        """One that has too many files to be counted is too large."""
        owned = {one: OwnedFolder(one.tmp, one.uid, one.gid) for one in kept}
        usages = await self._meter.measure(list(owned.values()))
        sizes: dict[Kept, int] = {}
        for one in owned:
            usage = usages.get(one.tmp)
            sizes[one] = 0 if usage is None else usage.size if usage.is_countable else self._budget_bytes + 1
        return sizes

    async def _remove(self, kept: Collection[Kept]) -> int:
        removed = 0
        for one in kept:
            self._sizes.pop(one.attempt, None)
            removed += await asyncio.to_thread(removing.remove, one.path)
        return removed


def beyond_budget(sizes: Mapping[Kept, int], budget_bytes: int) -> list[Kept]:
    """What has no room beside newer ones of the same user in that user's part of the budget."""
    totals: defaultdict[int, int] = defaultdict(int)
    for one, size in sizes.items():
        totals[one.uid] += size
    left = dict.fromkeys(totals, fair_share(totals.values(), budget_bytes))
    beyond = []
    for one in sorted(sizes, key=lambda one: one.at_s, reverse=True):
        if sizes[one] > left[one.uid]:
            beyond.append(one)
        else:
            left[one.uid] -= sizes[one]
    return beyond


def fair_share(totals: Iterable[int], budget: int) -> int:
    """The most that each may have so that all together have no more than the budget: what some do not need is
    for the others."""
    wanted = sorted(totals)
    for at, total in enumerate(wanted):
        share = budget // (len(wanted) - at)
        if total > share:
            return share
        budget -= total
    return max(wanted, default=budget)
