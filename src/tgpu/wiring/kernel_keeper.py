"""Switch to the compiled kernel once a cluster is large enough to need it.

The plain kernel plans until then. A process of its own fills the cache, at low priority; the server loads
the result.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable

from tgpu.control.loop import Control
from tgpu.core.engine import PLAIN, Engine
from tgpu.observe.logs import logger
from tgpu.store.port import StoreUnavailableError
from tgpu.wiring import kernel_cache

WORTH_IT_FROM_NODES = 32
LOOK_EVERY_S = 1.0
ASK_EVERY_S = 10.0
"""How often a follower asks the store for the number of nodes."""
_FILL_CACHE = (sys.executable, "-P", "-m", kernel_cache.__name__, kernel_cache.BACKGROUND)
_log = logger("kernel")


class KernelKeeper:
    """Loads the compiled kernel once; every later term of this server uses it. Followers load it as well,
    because a new leader has no time for that."""

    def __init__(
        self, choice: str, term: Callable[[], Control | None], count_nodes: Callable[[], Awaitable[int]]
    ) -> None:
        """`auto`: from 32 nodes on. `plain`: never. `compiled`: at once."""
        self._choice, self._term, self._count_nodes = choice, term, count_nodes
        self.engine: Engine = PLAIN

    async def keep(self) -> None:
        if self._choice == "plain":
            return
        while self._choice != "compiled" and await self._nodes() < WORTH_IT_FROM_NODES:  # noqa: ASYNC110  rare, and not urgent
            await asyncio.sleep(ASK_EVERY_S if self._term() is None else LOOK_EVERY_S)
        if not await fill_cache():
            _log.warning("the kernel was not compiled; this server goes on with the plain one")
            return
        self.engine = await asyncio.to_thread(kernel_cache.load, os.environ)
        control = self._term()
        if control is not None:
            control.engine = self.engine
        _log.info("plans are made by the compiled kernel")

    async def _nodes(self) -> int:
        control = self._term()
        if control is not None:
            return len(control.picture.places)
        try:
            return await self._count_nodes()
        except StoreUnavailableError:
            return 0


async def fill_cache() -> bool:
    """Compiles in another process what the cache lacks, and logs its progress. False: it failed."""
    _log.info("loading the compiled kernel")
    try:
        process = await asyncio.create_subprocess_exec(
            *_FILL_CACHE,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        _log.warning(f"cannot start a process: {error}")
        return False
    assert process.stdout is not None
    try:
        async for line in process.stdout:
            _log.info(line.decode(errors="replace").rstrip())
        return await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
