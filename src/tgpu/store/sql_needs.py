"""Jobs that wait for others, are held, or are changed while they wait, on any SQL database."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tgpu.domain.job import Job, JobSpec
from tgpu.store.needs_port import NeedRow
from tgpu.store.sql import altering, needs
from tgpu.store.sql.session import Session

T = TypeVar("T")


class SqlNeeds(ABC):
    @abstractmethod
    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T: ...

    @abstractmethod
    async def _read(self, work: Callable[[Session], T]) -> T: ...

    async def hold(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        return await self._write(lambda session: altering.hold(session, job_ids, by, at_ms), wakes=True)

    async def release(self, job_ids: Sequence[int], by: str, at_ms: int) -> list[Job | None]:
        return await self._write(lambda session: altering.release(session, job_ids, by, at_ms), wakes=True)

    async def edit(  # noqa: PLR0917  as the port has it
        self,
        before: Job,
        spec: JobSpec,
        by: str,
        at_ms: int,
        told: Mapping[str, object],
        token_id: int | None = None,
    ) -> Job:
        return await self._write(
            lambda session: altering.edit(session, before, spec, by, at_ms, told, token_id), wakes=True
        )

    async def needs_around(self, job_ids: Sequence[int]) -> list[NeedRow]:
        return await self._read(lambda session: needs.around(session, job_ids))
