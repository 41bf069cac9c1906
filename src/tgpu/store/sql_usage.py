"""Who used how much, on any SQL database: each method is a function of `store/sql` on one state of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

from tgpu.domain.usage import Usage
from tgpu.domain.utilization import AllocationSteps
from tgpu.store.sql import allocation, report_details, timeline, usage, usage_report
from tgpu.store.sql.session import Session
from tgpu.store.timeline_port import Occupations, TimelineFilter
from tgpu.store.usage_port import GroupBy, ReportDetail, ReportFilter, ReportRow

T = TypeVar("T")


class SqlUsage(ABC):
    @abstractmethod
    async def _read(self, work: Callable[[Session], T]) -> T:
        """On one state of the database."""

    async def report(self, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int) -> list[ReportRow]:
        return await self._read(lambda session: usage_report.report(session, where, by, now_ms))

    async def report_details(
        self, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int
    ) -> dict[tuple[str, ...], ReportDetail]:
        return await self._read(lambda session: report_details.report_details(session, where, by, now_ms))

    async def gpu_ms_since(self, since_ms: Mapping[str, int], now_ms: int) -> dict[str, int]:
        return await self._read(lambda session: usage_report.gpu_ms_since(session, since_ms, now_ms))

    async def allocation(
        self, from_ms: int, until_ms: int, step_ms: int, node_id: str | None = None
    ) -> AllocationSteps:
        return await self._read(
            lambda session: allocation.allocation(session, from_ms, until_ms, step_ms, node_id)
        )

    async def usage(self, job_id: int, most: int = 100_000) -> list[Usage]:
        return await self._read(lambda session: usage.of_job(session, job_id, most))

    async def occupations(self, where: TimelineFilter, most: int, bins: int, now_ms: int) -> Occupations:
        return await self._read(lambda session: timeline.occupations(session, where, most, bins, now_ms))
