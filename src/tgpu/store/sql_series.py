"""Jobs of very many tasks, on any SQL database: what users want of some of these."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from tgpu.domain.index_set import IndexSet
from tgpu.domain.job import Job
from tgpu.store.sql import forgetting, series
from tgpu.store.sql.session import Session

T = TypeVar("T")


class SqlSeries(ABC):
    @abstractmethod
    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T: ...

    async def cancel_tasks(
        self, job_id: int, positions: IndexSet, by: str, at_ms: int, *, now: bool = False
    ) -> Job | None:
        return await self._write(
            lambda session: series.cancel_tasks(session, job_id, positions, by, at_ms, now=now), wakes=True
        )

    async def restart_tasks(self, job_id: int, positions: Sequence[int], by: str, at_ms: int) -> list[int]:
        return await self._write(
            lambda session: series.restart_tasks(session, job_id, positions, by, at_ms), wakes=True
        )

    async def suspend(self, job_id: int, by: str, at_ms: int) -> Job | None:
        return await self._write(lambda session: series.suspend(session, job_id, by, at_ms), wakes=True)

    async def forget(self, epoch: int, at_ms: int, most: int = 100) -> int:
        return await self._write(lambda session: forgetting.forget(session, epoch, at_ms, most))

    async def resume(self, job_id: int, by: str, at_ms: int) -> Job | None:
        return await self._write(lambda session: series.resume(session, job_id, by, at_ms), wakes=True)
