"""Keeps the connection to this node's engine: whether it is there, since when not, and who waits for it."""

import asyncio
import contextlib
from collections.abc import Callable

from tgpu.observe.logs import logger
from tgpu.runner.docker.engine import About, Engine, EngineAwayError, EngineRefusedError

LOOK_EVERY_S = 5.0
LOOK_AGAIN_S = 0.5
"""While it is away and somebody needs it."""
ABSENT_S = 30.0
"""An engine that is away for so long does not count as one of this node's any more."""


class NoEngineError(Exception):
    """It did not come back in time."""


class Keeper:
    def __init__(self, find: Callable[[], str | None]) -> None:
        """`find` says where the engine listens, if there is one."""
        self._find = find
        self._engine: Engine | None = None
        self._about: About | None = None
        self._present = asyncio.Event()
        self._away_since: float | None = 0.0
        self._look = asyncio.Event()
        self._lost_at: float | None = None
        """When it was last found to be away, on the loop's clock."""
        self.on_back: Callable[[], None] = lambda: None

    @property
    def about(self) -> About | None:
        """What engine there is; None if there is none, or has been none for a while."""
        since = self._away_since
        if since is not None and asyncio.get_running_loop().time() - since >= ABSENT_S:
            return None
        return self._about

    @property
    def is_present(self) -> bool:
        return self._present.is_set()

    def was_lost_within(self, seconds: float) -> bool:
        return self._lost_at is not None and asyncio.get_running_loop().time() - self._lost_at <= seconds

    async def engine(self, within_s: float | None = None) -> tuple[Engine, About]:
        """As soon as there is one; raises NoEngineError after that time."""
        if not self._present.is_set():
            self._look.set()
            try:
                async with asyncio.timeout(within_s):
                    await self._present.wait()
            except TimeoutError:
                raise NoEngineError from None
        assert self._engine is not None
        assert self._about is not None
        return self._engine, self._about

    def lost(self) -> None:
        """Somebody got no answer."""
        if self._present.is_set():
            self._present.clear()
            self._away_since = asyncio.get_running_loop().time()
            self._lost_at = self._away_since
            logger("runner").warning("the container engine does not answer")
        self._look.set()

    async def look(self) -> None:
        """Once, now."""
        url = self._find()
        if self._engine is not None and self._engine.url != url:
            await self._drop()
        if url is None:
            self._is_away()
            return
        self._engine = self._engine or Engine(url)
        try:
            if self._present.is_set():
                await self._engine.ping()
            else:
                self._about = await self._engine.about()
                self._is_there()
        except (EngineAwayError, EngineRefusedError):
            self._is_away()

    async def go_on(self) -> None:
        while True:
            waits = not self._present.is_set() and self._about is not None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AGAIN_S if waits else LOOK_EVERY_S):
                    await self._look.wait()
                    await asyncio.sleep(LOOK_AGAIN_S / 5)
            self._look.clear()
            await self.look()

    async def close(self) -> None:
        await self._drop()

    def _is_there(self) -> None:
        assert self._about is not None
        self._present.set()
        self._away_since = None
        logger("runner").info("container engine", kind=self._about.kind, version=self._about.version)
        self.on_back()

    def _is_away(self) -> None:
        if self._present.is_set():
            self.lost()
            self._look.clear()

    async def _drop(self) -> None:
        if self._engine is not None:
            await self._engine.close()
            self._engine = None
