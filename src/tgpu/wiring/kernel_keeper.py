"""Compiled code for the planner once there are nodes enough: loaded beside the running server."""

import asyncio
import os
from collections.abc import Awaitable, Callable

from tgpu.control.loop import Control
from tgpu.core.engine import PLAIN, Engine
from tgpu.observe.logs import logger
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring import kernel_cache

WORTH_IT_FROM_NODES = 32
LOOK_EVERY_S = 1.0
ASK_EVERY_S = 10.0
"""A server that follows asks the store how many nodes there are."""


class KernelKeeper:
    """Loads it once; every term of this server uses it from then on. Whoever follows loads it as well: a
    new leader has no time for that."""

    def __init__(
        self, choice: str, term: Callable[[], Control | None], count_nodes: Callable[[], Awaitable[int]]
    ) -> None:
        """`auto`: from so many nodes on. `plain`: never. `compiled`: at once."""
        self._choice, self._term, self._count_nodes = choice, term, count_nodes
        self.engine: Engine = PLAIN

    async def keep(self) -> None:
        if self._choice == "plain":
            return
        while self._choice != "compiled" and await self._nodes() < WORTH_IT_FROM_NODES:  # noqa: ASYNC110  rare, and not urgent
            await asyncio.sleep(ASK_EVERY_S if self._term() is None else LOOK_EVERY_S)
        log = logger("kernel")
        log.info("loading compiled code")
        self.engine = await asyncio.to_thread(kernel_cache.load, os.environ)
        control = self._term()
        if control is not None:
            control.engine = self.engine
        log.info("plans are made by compiled code from now on")

    async def _nodes(self) -> int:
        control = self._term()
        if control is not None:
            return len(control.picture.places)
        try:
            return await self._count_nodes()
        except StoreUnavailableError:
            return 0
