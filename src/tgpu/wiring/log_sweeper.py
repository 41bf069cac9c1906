"""Removes the output of tasks that ended long ago, once an hour."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from tgpu.observe.logs import logger

EVERY_S = 3600.0


class Swept(Protocol):
    async def sweep_logs(self, older_than_days: float) -> int:
        """Of how many attempts the output was removed."""
        ...


async def sweep_for_ever(runners: Sequence[Swept], keep_days: float) -> None:
    log = logger("log-sweeper")
    while True:
        await asyncio.sleep(EVERY_S)
        for runner in runners:
            try:
                removed = await runner.sweep_logs(keep_days)
            except OSError as error:  # a disk in trouble must not end the agent
                log.warning("old output could not be removed", error=str(error))
            else:
                log.info("old output removed", attempts=removed)
