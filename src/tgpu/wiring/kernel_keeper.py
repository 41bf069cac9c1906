"""Compiled code for the planner once there are nodes enough: loaded beside the running server."""

import asyncio
import os
from collections.abc import Callable

from tgpu.control.loop import Control
from tgpu.core.engine import PLAIN, Engine
from tgpu.observe.logs import logger
from tgpu.wiring import kernel_cache

WORTH_IT_FROM_NODES = 32
LOOK_EVERY_S = 1.0


class KernelKeeper:
    """Loads it once; every term of this server uses it from then on."""

    def __init__(self, choice: str, term: Callable[[], Control | None]) -> None:
        """`auto`: from so many nodes on. `plain`: never. `compiled`: at once."""
        self._choice, self._term = choice, term
        self.engine: Engine = PLAIN

    async def keep(self) -> None:
        if self._choice == "plain":
            return
        while not self._worth_it():  # noqa: ASYNC110  rare, and not urgent
            await asyncio.sleep(LOOK_EVERY_S)
        log = logger("kernel")
        log.info("loading compiled code")
        self.engine = await asyncio.to_thread(kernel_cache.load, os.environ)
        control = self._term()
        if control is not None:
            control.engine = self.engine
        log.info("plans are made by compiled code from now on")

    def _worth_it(self) -> bool:
        control = self._term()
        nodes = 0 if control is None else len(control.picture.places)
        return self._choice == "compiled" or nodes >= WORTH_IT_FROM_NODES
