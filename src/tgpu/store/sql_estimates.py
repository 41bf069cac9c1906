"""Estimates of starts, on any SQL database: each method is a function of `store/sql` in one transaction."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from tgpu.domain.start_estimate import StartEstimate
from tgpu.store.estimate_port import EstimateChanges, PastRun
from tgpu.store.sql import start_estimates
from tgpu.store.sql.session import Session

T = TypeVar("T")


class SqlEstimates(ABC):
    @abstractmethod
    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T:
        """In one transaction that is durable when this returns; `wakes` whoever subscribed."""

    @abstractmethod
    async def _read(self, work: Callable[[Session], T]) -> T:
        """On one state of the database."""

    async def note_start_estimates(self, epoch: int, changes: EstimateChanges) -> None:
        await self._write(lambda session: start_estimates.note(session, epoch, changes))

    async def start_estimates(self) -> list[StartEstimate]:
        return await self._read(start_estimates.every)

    async def scored_start_estimates(self) -> list[StartEstimate]:
        return await self._read(start_estimates.scored)

    async def recent_runs(self, limit: int) -> list[PastRun]:
        return await self._read(lambda session: start_estimates.recent_runs(session, limit))
