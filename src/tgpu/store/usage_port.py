"""Who used how much: what attempts were given and what they used, added up by whatever is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from tgpu.domain.usage import Figures, Usage
from tgpu.domain.utilization import AllocationSteps


class GroupBy(StrEnum):
    """What a report has one row for each of."""

    USER = "user"
    TENANT = "tenant"
    POOL = "pool"
    GPU_TYPE = "gpu-type"
    CLASS = "class"
    NODE = "node"
    CAUSE = "cause"
    """Why its attempts ended; `running` for those that have not."""
    DAY = "day"
    WEEK = "week"
    """From Monday on."""
    MONTH = "month"

    @property
    def is_time(self) -> bool:
        return self in (GroupBy.DAY, GroupBy.WEEK, GroupBy.MONTH)


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """An empty field does not filter."""

    from_ms: int | None = None
    until_ms: int | None = None
    """What lies outside of [from, until) is cut off, of each attempt."""
    users: frozenset[str] = frozenset()
    tenants: tuple[str, ...] = ()
    """Each with everybody below it."""
    pools: frozenset[str] = frozenset()
    gpu_type: str | None = None
    """As a job's: a part of the model's name, in any case."""
    seen_by: str | None = None
    """Only what is this user's, or in one of `seen_tenants` or below it: what somebody may see."""
    seen_tenants: tuple[str, ...] = ()
    tenant_depth: int | None = None
    """Tenants below so many levels are counted as their ancestor on that level."""


@dataclass(frozen=True, slots=True)
class ReportRow:
    keys: tuple[str, ...]
    """In the order of what it was asked by. Of a time: the day it begins, `2026-07-25`."""
    figures: Figures


@dataclass(slots=True)
class ReportDetail:
    """What is found out of a row of a report only on request, since it takes longer."""

    waits: dict[int, int] = field(default_factory=dict)
    """How many attempts that began in the time waited for so many milliseconds, rounded by `rounded_wait`."""
    failed_ms: int = 0
    """How long tasks ran that failed in the end."""
    failed_gpu_ms: int = 0
    """Milliseconds of a GPU that they had."""

    def add(self, other: "ReportDetail") -> None:
        for wait_ms, count in other.waits.items():
            self.waits[wait_ms] = self.waits.get(wait_ms, 0) + count
        self.failed_ms += other.failed_ms
        self.failed_gpu_ms += other.failed_gpu_ms

    def wait_percentile(self, percent: int) -> int | None:
        """The smallest wait that so many percent of the attempts did not exceed."""
        needed, seen = -(-sum(self.waits.values()) * percent // 100), 0
        for wait_ms in sorted(self.waits):
            seen += self.waits[wait_ms]
            if seen >= needed:
                return wait_ms
        return None


WAIT_SCALES: tuple[int, ...] = tuple(10**digits for digits in range(12))


def rounded_wait(wait_ms: int) -> int:
    """Down to two digits, so that there are few different ones."""
    for scale in WAIT_SCALES:
        if wait_ms < 100 * scale:
            return wait_ms // scale * scale
    return wait_ms // (10 * WAIT_SCALES[-1]) * 10 * WAIT_SCALES[-1]


class UsageStore(Protocol):
    async def report(self, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int) -> list[ReportRow]:
        """Sorted by keys; at most one of `by` is a time. What runs counts up to now."""
        ...

    async def report_details(
        self, where: ReportFilter, by: tuple[GroupBy, ...], now_ms: int
    ) -> dict[tuple[str, ...], ReportDetail]:
        """By the keys of `report`; rows without any are left out."""
        ...

    async def gpu_ms_since(self, since_ms: Mapping[str, int], now_ms: int) -> dict[str, int]:
        """For each of these tenants what it and everybody below it was given of GPUs since that moment, in
        milliseconds of a GPU; up to now by what runs."""
        ...

    async def allocation(
        self, from_ms: int, until_ms: int, step_ms: int, node_id: str | None = None
    ) -> AllocationSteps:
        """What attempts held on average in each step, on one node or on all: exact, also of attempts that are
        over. What runs holds it until the end of the time asked for."""
        ...

    async def usage(self, job_id: int, most: int = 100_000) -> list[Usage]:
        """Of each attempt of a job that is over, in their order; the first ones."""
        ...
