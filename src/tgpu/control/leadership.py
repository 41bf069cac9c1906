"""Who leads: this server campaigns for the lease, leads while it can renew it in time, and follows otherwise.

The lease and its epoch are the store's; its end is judged by the store's clock alone. How long this server
may act on it is measured from the moment a renewal *began*, on its own clock: the two need not agree.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from tgpu.control.directory import Directory
from tgpu.control.hub import Hub
from tgpu.observe.logs import logger, trace_of
from tgpu.store.port import DeposedError, Store, StoreUnavailableError


@dataclass(frozen=True, slots=True)
class LeaseTimers:
    ttl_s: float = 5.0
    renew_s: float = 1.0
    act_s: float = 4.0
    """How long after the beginning of the last good renewal this server still acts as the leader."""
    late_s: float = 2.5
    """A leader that has not renewed for so long may be dead: no agent is sent there any more."""


class Term(Protocol):
    """What a server does while it leads."""

    async def run(self, epoch: int) -> None:
        """Until cancelled, or until a newer epoch is met (DeposedError)."""
        ...


class Leadership:
    def __init__(
        self,
        *,
        store: Store,
        server_id: str,
        hub: Hub,
        directory: Directory,
        begin_term: Callable[[], Term],
        end_term: Callable[[], None],
        timers: LeaseTimers,
        random: Random,
        shared: bool,
    ) -> None:
        """`shared`: other servers may use this store; if none can, there is nothing to renew."""
        self._store = store
        self._server_id = server_id
        self._hub = hub
        self._directory = directory
        self._begin_term = begin_term
        self._end_term = end_term
        self._timers = timers
        self._random = random
        self._shared = shared
        self._log = logger("leadership")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            epoch, renewed = await self._win()
            try:
                await self._lead(epoch, renewed)
            finally:
                self._end_term()
                self._hub.step_down()
                await self._resign(epoch)
            await self._pause()  # whatever ended this term may still be there

    async def _win(self) -> tuple[int, float]:
        """The epoch, and when the campaign that brought it began."""
        loop = asyncio.get_running_loop()
        away = False
        while True:
            began = loop.time()
            try:
                epoch = await self._store.campaign(self._server_id, self._ttl_ms)
                away = False
                if epoch is not None:
                    self._hub.follow(None, self._directory.urls)  # agents are told whom else to ask
                    self._log.info("leads from now on", epoch=epoch)
                    return epoch, began
                await self._follow()
            except StoreUnavailableError as error:
                self._hub.follow(None, self._directory.urls)
                if not away:
                    self._log.error("nobody can lead while the store is away", error=str(error))
                away = True
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._timers.renew_s * self._random.uniform(0.8, 1.2))

    async def _follow(self) -> None:
        leader = await self._store.leader()
        late_ms = self._ttl_ms - round(1000 * self._timers.late_s)
        there = leader is not None and leader.left_ms > late_ms
        url = self._directory.url_of(leader.server_id) if leader is not None and there else None
        self._hub.follow(url, self._directory.urls)

    async def _lead(self, epoch: int, renewed: float) -> None:
        term = asyncio.create_task(self._begin_term().run(epoch))
        keeping = asyncio.create_task(self._keep(epoch, renewed))
        try:
            await asyncio.wait({term, keeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (term, keeping):
                task.cancel()
            await asyncio.wait({term, keeping})
        if not term.cancelled() and (failure := term.exception()) is not None:
            if isinstance(failure, DeposedError | StoreUnavailableError):
                self._log.warning("leads no longer", why=str(failure))
            else:
                self._log.error("a term failed, and this server campaigns again", trace=trace_of(failure))

    async def _keep(self, epoch: int, renewed: float) -> None:
        """Returns when this server may act as the leader no longer."""
        loop = asyncio.get_running_loop()
        if not self._shared:
            await loop.create_future()
        while True:
            self._hub.acts_until = renewed + self._timers.act_s
            await asyncio.sleep(self._timers.renew_s)
            began = loop.time()
            left_s = renewed + self._timers.act_s - began
            if left_s <= 0:
                self._log.warning("leads no longer", why="the lease could not be renewed in time")
                return
            with contextlib.suppress(StoreUnavailableError, TimeoutError):
                async with asyncio.timeout(left_s):
                    if not await self._store.renew(epoch, self._ttl_ms):
                        self._log.warning("leads no longer", why="another server leads")
                        return
                renewed = began

    async def _resign(self, epoch: int) -> None:
        """A server that stops in peace need not be waited for."""
        with contextlib.suppress(StoreUnavailableError, TimeoutError):
            async with asyncio.timeout(self._timers.renew_s):
                await self._store.resign(epoch)

    @property
    def _ttl_ms(self) -> int:
        return round(1000 * self._timers.ttl_s)
