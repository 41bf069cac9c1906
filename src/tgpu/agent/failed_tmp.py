"""Sweep of the private /tmp directories that are kept after failures, by age and by size."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from tgpu.observe.logs import logger
from tgpu.runner import failed_tmp

SWEEP_EVERY_S = 60.0


class FailedTmp:
    """All that it knows is on disk: an agent that is started again goes on sweeping what is there."""

    def __init__(
        self,
        root: Path,
        keep_s: int,
        budget_bytes: int,
        shortage: Callable[[], str | None] = lambda: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """`shortage`: of disk space, in words; then nothing is kept."""
        self._root, self._keep_s, self._budget_bytes = root, keep_s, budget_bytes
        self._shortage, self._now_s = shortage, now_s

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
        before_s = self._now_s() - self._keep_s
        budget_bytes = self._budget_bytes if self._shortage() is None else 0
        return await asyncio.to_thread(failed_tmp.sweep, str(self._root), before_s, budget_bytes)
