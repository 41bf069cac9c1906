"""The memory store in bad weather: slow, away for a while, and at times silent about what it has done."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from tgpu.domain.quota import Admission
from tgpu.sim.chance import happens
from tgpu.sim.facts import Facts
from tgpu.sim.loop import INCARNATION
from tgpu.sim.trace import Trace
from tgpu.store.memory import MemoryStore
from tgpu.store.memory_progress import commit
from tgpu.store.memory_state import State
from tgpu.store.port import Batch, Receipt, StoreUnavailableError
from tgpu.store.port import World as StoredWorld

T = TypeVar("T")
_DELAYS_S = (0.0, 0.0, 0.002, 0.02, 0.2)


class SimStore(MemoryStore):
    """What is in it survives every server."""

    def __init__(self, random: Random, facts: Facts, trace: Trace) -> None:
        super().__init__("simulated")
        self._random = random
        self._facts = facts
        self._trace = trace
        self.away = False
        self.cut_off: set[str] = set()
        """Servers that cannot reach it."""
        self.flaky = 0.0
        """How often a single call fails, before or after its effect."""

    @property
    def state(self) -> State:
        """For the checkers, who ask no server."""
        return self._state

    async def load(self) -> StoredWorld:
        """A leader that reads everything anew forgets all that is not written down."""
        reader = INCARNATION.get()
        if reader is not None and reader.name == self._facts.leader:
            self._facts.loaded()
        return await super().load()

    async def commit(self, epoch: int, batch: Batch) -> Receipt:
        return await self._once(lambda: self._commit(epoch, batch))

    def _commit(self, epoch: int, batch: Batch) -> Receipt:
        receipt = commit(self._state, epoch, batch)
        for event in receipt.events:
            told = " ".join(f"{name}={value}" for name, value in event.data.items())
            self._trace.add("store", f"epoch {epoch}: job {event.job_id} {event.kind} {told}")
        for change in batch.assigned:
            done = "refused" if change in receipt.refused else f"admitted: {change.admission}"
            if change.admission is not Admission.CHARGED or change in receipt.refused:
                self._trace.add("store", f"epoch {epoch}: job {change.attempt_id.job_id} is {done}")
        self._facts.committed(epoch, batch, receipt)
        return receipt

    async def _once(self, effect: Callable[[], T], *, wakes: bool = False) -> T:
        await asyncio.sleep(self._random.choice(_DELAYS_S))
        if self._is_away() or happens(self._random, self.flaky):
            raise StoreUnavailableError("simulated: the disk is full")
        result = await super()._once(lambda: self._noted(effect), wakes=wakes)
        if self._is_away() or happens(self._random, self.flaky):
            raise StoreUnavailableError("simulated: the connection broke before the answer came")
        return result

    def _is_away(self) -> bool:
        caller = INCARNATION.get()
        return self.away or (caller is not None and caller.name in self.cut_off)

    def _noted(self, effect: Callable[[], T]) -> T:
        """With a new epoch somebody leads from this moment on, whether the answer arrives or not."""
        before = self._state.epoch
        result = effect()
        if self._state.epoch != before:
            winner = INCARNATION.get()
            assert winner is not None
            self._facts.epoch, self._facts.leader = self._state.epoch, winner.name
            self._trace.add("store", f"epoch {self._state.epoch} begins: {winner.name} leads")
        return result
