"""How a report is added up: which row an attempt, or a part of one, belongs to."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import cast

from tgpu.domain.tenant import is_within
from tgpu.domain.usage import Cut, Figures, Usage, added, cut_of
from tgpu.store.usage_port import GroupBy, ReportDetail, ReportFilter, ReportRow, rounded_wait

DAY_MS = 86_400_000
END_OF_TIME_MS = 253_402_300_800_000
"""The last year that has a date."""
RUNNING = "running"

Dimensions = dict[GroupBy, str]
"""What an attempt is of, without its time."""
Key = tuple[str | None, ...]
"""Of a row of the report; None stands for the time."""


class Tally:
    """One report under way. It adds up the fields of `Figures`, as bare numbers: there may be many."""

    def __init__(self, where: ReportFilter, by: tuple[GroupBy, ...]) -> None:
        self._where, self._by = where, by
        self._sums: dict[tuple[str, ...], Sequence[int]] = {}
        self._unit = next((each for each in by if each.is_time), None)
        self._from_ms, self._until_ms = bounds(where)

    def add(self, usage: Usage) -> None:
        key = self.key_of(dimensions_of(usage))
        if key is not None:
            self.add_cut(key, cut_of(usage))

    def add_cut(self, key: Key, cut: Cut) -> None:
        """Cut at the edges of the report, and of its days, weeks or months."""
        from_ms = max(self._from_ms, cut.started_ms)
        until_ms = min(self._until_ms, cut.ended_ms + 1)  # what took no time is somewhere, too
        if self._unit is None:
            self._add_part(key, cut, from_ms, self._until_ms)
            return
        while from_ms < until_ms:
            end_ms = ending(self._unit, from_ms)
            self._add_part(key, cut, from_ms, min(end_ms, self._until_ms))
            from_ms = end_ms

    def _add_part(self, key: Key, cut: Cut, from_ms: int, until_ms: int) -> None:
        part = cut.between(from_ms, until_ms)
        if part is not None:
            self.add_sums(key, from_ms, part)

    def add_sums(self, key: Key, at_ms: int, sums: Sequence[int]) -> None:
        """Of attempts that are wholly in the report, and in that one of its days, weeks or months."""
        whole = timed(key, self._unit, at_ms)
        so_far = self._sums.get(whole)
        self._sums[whole] = sums if so_far is None else added(so_far, sums)

    def rows(self) -> list[ReportRow]:
        return [ReportRow(keys, Figures(*sums)) for keys, sums in sorted(self._sums.items())]

    def key_of(self, dimensions: Dimensions) -> Key | None:
        """Which row attempts of this kind belong to, but for the time; None if they are not wanted."""
        if not is_wanted(self._where, dimensions):
            return None
        return tuple(None if each.is_time else self._part(each, dimensions[each]) for each in self._by)

    def _part(self, each: GroupBy, said: str) -> str:
        if each is GroupBy.TENANT and self._where.tenant_depth is not None:
            return "/".join(said.split("/")[: self._where.tenant_depth])
        return said


class DetailTally:
    """Details of one report under way."""

    def __init__(self, where: ReportFilter, by: tuple[GroupBy, ...]) -> None:
        self._where, self._rows = where, Tally(where, by)
        self._unit = next((each for each in by if each.is_time), None)
        self.details: dict[tuple[str, ...], ReportDetail] = {}

    def key_of(self, dimensions: Dimensions) -> Key:
        """Of attempts that are wanted."""
        key = self._rows.key_of(dimensions)
        assert key is not None, "the caller has asked"
        return key

    def waits_of(self, dimensions: Dimensions, at_ms: int) -> dict[int, int]:
        """Of attempts that began in the day, week or month of that moment: to be added to."""
        return self._detail(self.key_of(dimensions), at_ms).waits

    def add_wait(self, spent: Usage) -> None:
        from_ms, until_ms = bounds(self._where)
        if from_ms <= spent.started_ms < until_ms:
            waits, wait_ms = (
                self.waits_of(dimensions_of(spent), spent.started_ms),
                rounded_wait(spent.wait_ms),
            )
            waits[wait_ms] = waits.get(wait_ms, 0) + 1

    def add_failed(self, key: Key, started_ms: int, ended_ms: int, gpu_milli: int) -> None:
        from_ms, until_ms = bounds(self._where)
        at_ms, until_ms = max(from_ms, started_ms), min(until_ms, ended_ms)
        while at_ms < until_ms:
            end_ms = until_ms if self._unit is None else min(until_ms, ending(self._unit, at_ms))
            detail = self._detail(key, at_ms)
            detail.failed_ms += end_ms - at_ms
            detail.failed_gpu_ms += gpu_milli * (end_ms - at_ms) // 1000
            at_ms = end_ms

    def _detail(self, key: Key, at_ms: int) -> ReportDetail:
        return self.details.setdefault(timed(key, self._unit, at_ms), ReportDetail())


def timed(key: Key, unit: GroupBy | None, at_ms: int) -> tuple[str, ...]:
    """With the day, week or month of that moment in place of None."""
    if unit is not None:
        key = tuple(_day(beginning(unit, at_ms)) if part is None else part for part in key)
    return cast("tuple[str, ...]", key)


def gpu_ms_after(cut: Cut, from_ms: int) -> int:
    part = cut.between(from_ms, END_OF_TIME_MS)
    return 0 if part is None else Figures(*part).gpu_ms


def bounds(where: ReportFilter) -> tuple[int, int]:
    until_ms = END_OF_TIME_MS if where.until_ms is None else min(where.until_ms, END_OF_TIME_MS)
    return max(0, where.from_ms or 0), until_ms


def dimensions_of(usage: Usage) -> Dimensions:
    return {
        GroupBy.USER: usage.user,
        GroupBy.TENANT: usage.tenant_id,
        GroupBy.POOL: usage.pool,
        GroupBy.GPU_TYPE: usage.gpu_type,
        GroupBy.CLASS: usage.priority_class.value,
        GroupBy.NODE: usage.node_id,
        GroupBy.CAUSE: RUNNING if usage.cause is None else usage.cause.value,
    }


def asked_of(where: ReportFilter) -> set[GroupBy]:
    """What has to be known of an attempt to tell whether it is wanted."""
    asked = {
        GroupBy.USER: bool(where.users) or where.seen_by is not None,
        GroupBy.TENANT: bool(where.tenants) or where.seen_by is not None,
        GroupBy.POOL: bool(where.pools),
        GroupBy.GPU_TYPE: where.gpu_type is not None,
    }
    return {each for each, is_asked in asked.items() if is_asked}


def is_wanted(where: ReportFilter, of: Dimensions) -> bool:
    return (
        (not where.users or of[GroupBy.USER] in where.users)
        and (not where.tenants or any(is_within(of[GroupBy.TENANT], top) for top in where.tenants))
        and (not where.pools or of[GroupBy.POOL] in where.pools)
        and (where.gpu_type is None or where.gpu_type.lower() in of[GroupBy.GPU_TYPE].lower())
        and _may_be_seen(where, of)
    )


def _may_be_seen(where: ReportFilter, of: Dimensions) -> bool:
    if where.seen_by is None or of[GroupBy.USER] == where.seen_by:
        return True
    return any(is_within(of[GroupBy.TENANT], top) for top in where.seen_tenants)


@lru_cache(maxsize=4096)
def _month(day: int) -> int:
    """When the month of a day begins, by the number of each since 1970."""
    return _ms(_date(day * DAY_MS).replace(day=1))


def beginning(unit: GroupBy, at_ms: int) -> int:
    """Of the day, week or month, in UTC, that a moment is in."""
    day = at_ms // DAY_MS
    if unit is GroupBy.WEEK:
        return (day - (day + 3) % 7) * DAY_MS  # the first of January 1970 was a Thursday
    if unit is GroupBy.MONTH:
        return _month(day)
    return day * DAY_MS


def ending(unit: GroupBy, at_ms: int) -> int:
    """Of the same."""
    start_ms = beginning(unit, at_ms)
    if unit is GroupBy.MONTH:
        return _ms((_date(start_ms) + timedelta(days=31)).replace(day=1))
    return start_ms + (7 if unit is GroupBy.WEEK else 1) * DAY_MS


@lru_cache(maxsize=4096)
def _day(at_ms: int) -> str:
    return _date(at_ms).date().isoformat()


def _date(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC)


def _ms(date: datetime) -> int:
    return round(date.timestamp()) * 1000
