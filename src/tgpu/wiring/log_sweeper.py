"""Removes the output of tasks that ended long ago, once an hour."""

import asyncio
from collections.abc import Sequence

from tgpu.observe.logs import logger
from tgpu.runner.process import ProcessRunner

EVERY_S = 3600.0


async def sweep_for_ever(runners: Sequence[ProcessRunner], keep_days: float) -> None:
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
