"""Compiled code for the planner once there are nodes enough: loaded beside the running server."""

import asyncio
import os

from tgpu.control.loop import Control
from tgpu.observe.logs import logger
from tgpu.wiring import kernel_cache

WORTH_IT_FROM_NODES = 32
LOOK_EVERY_S = 1.0


async def keep_kernel(control: Control, choice: str) -> None:
    """`auto`: from so many nodes on. `plain`: never. `compiled`: at once."""
    if choice == "plain":
        return
    while choice == "auto" and len(control.picture.places) < WORTH_IT_FROM_NODES:  # noqa: ASYNC110  rare, and not urgent
        await asyncio.sleep(LOOK_EVERY_S)
    log = logger("kernel")
    log.info("loading compiled code")
    control.engine = await asyncio.to_thread(kernel_cache.load, os.environ)
    log.info("plans are made by compiled code from now on")
