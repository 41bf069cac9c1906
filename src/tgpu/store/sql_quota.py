"""The ledger's upkeep, on any SQL database: each transaction is a function of `store/sql`."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from tgpu.domain.tenant import Tenant
from tgpu.store.quota_port import Discrepancy
from tgpu.store.sql import periods, recount
from tgpu.store.sql.session import Session

T = TypeVar("T")


class SqlQuota(ABC):
    @abstractmethod
    async def _write(self, work: Callable[[Session], T], *, wakes: bool = False) -> T: ...

    @abstractmethod
    async def _read(self, work: Callable[[Session], T]) -> T: ...

    async def recount(self, epoch: int) -> list[Discrepancy]:
        """Only what seems to differ is looked at again while others wait."""
        if not await self._read(lambda session: recount.differences(session, epoch)):
            return []
        return await self._write(lambda session: recount.mend(session, epoch))

    async def reserved_gpu_ms(self) -> dict[str, int]:
        return await self._read(periods.reserved)

    async def roll_periods(self, epoch: int, at_ms: int) -> list[Tenant]:
        return await self._write(lambda session: periods.roll(session, epoch, at_ms))
